/** The strip of time: model calls, tool calls and waits, with long waits folded. */
import { isLive } from "../api.js";
import { clock, plain, span } from "../format.js";
import { html } from "../html.js";

const WIDTH = 1000;
const FOLDED = 48;
const MIN_BAR = 3;
const FOLD_SECONDS = 30;
/** A run in which nothing happens for so long, though nothing waits, had no worker. */
const SLEPT_SECONDS = 3600;
/** Labels that are closer together would cover each other on a phone. */
const LABEL = 80;

/** @param {import("../run_model.js").Run} run @param {number} until */
function barsOf(run, until) {
  const bars = [];
  for (const each of run.iterations) {
    bars.push({ lane: 0, from: each.started, to: each.modelEnded || until, kind: each.lostAttempts ? "held" : "model", name: `model call of iteration ${each.number}`, id: "", number: each.number });
    each.calls.forEach((call, index) => {
      const asked = call.request?.since;
      const decided = call.decision?.at ?? (asked ? until : 0);
      const lane = 1 + (index % 3);
      if (asked) bars.push({ lane, from: asked, to: decided, kind: "person", name: `${call.name} waits`, id: call.id, number: each.number });
      const from = asked ? decided : call.started;
      if (!asked || call.decision) bars.push({ lane, from, to: call.ended || until, kind: call.state === "failed" ? "failed" : "tool", name: call.name, id: call.id, number: each.number });
    });
  }
  if (run.held) bars.push({ lane: 0, from: run.held.since, to: until, kind: "held", name: "held", id: "", number: 0 });
  return bars.filter((each) => each.from > 0 && each.to >= each.from);
}

/**
 * A run's bars, and a scale from time to a place in which long waits are 48 px wide; `active` is the
 * number of seconds outside of these waits.
 * @param {import("../run_model.js").Run} run @param {number} until
 */
export function timelineOf(run, until) {
  const { first } = run;
  const bars = barsOf(run, until);
  const waits = bars.filter((each) => ["person", "held"].includes(each.kind) && each.to - each.from > FOLD_SECONDS);
  const folds = /** @type {{from: number, to: number, kind: string}[]} */ ([]);
  for (const { from, to, kind } of [...waits, ...sleepsOf(bars)].sort((a, b) => a.from - b.from)) {
    const last = folds.at(-1);
    if (last && from <= last.to) last.to = Math.max(last.to, to);
    else folds.push({ from, to, kind });
  }
  const active = Math.max(until - first - folds.reduce((sum, each) => sum + each.to - each.from, 0), 0.001);
  const unit = Math.max(WIDTH - folds.length * FOLDED, 100) / active;
  const place = (/** @type {number} */ time) => {
    let x = 0;
    let at = first;
    for (const fold of folds) {
      if (time <= fold.from) break;
      x += (fold.from - at) * unit;
      if (time < fold.to) return x + (FOLDED * (time - fold.from)) / (fold.to - fold.from);
      x += FOLDED;
      at = fold.to;
    }
    return x + (time - at) * unit;
  };
  const slept = sleepsOf(bars).reduce((sum, each) => sum + each.to - each.from, 0);
  return { bars, place, folds, active, slept };
}

/** The times between bars in which the run had no worker. @param {{from: number, to: number}[]} bars */
function sleepsOf(bars) {
  const found = [];
  let end = Infinity;
  for (const { from, to } of [...bars].sort((a, b) => a.from - b.from)) {
    if (from - end > SLEPT_SECONDS) found.push({ from: end, to: from, kind: "held" });
    end = Math.max(end === Infinity ? to : end, to);
  }
  return found;
}

/**
 * The marks that are seen: those that end within a pixel of the last drawn one's beginning, in the same row, are left out.
 * @template Mark @param {Mark[]} marks @param {(mark: Mark) => number} from @param {(mark: Mark) => number} [to] @param {(mark: Mark) => string} [row]
 */
function apart(marks, from, to = from, row = () => "") {
  const ends = /** @type {Record<string, number>} */ ({});
  return marks.filter((each) => {
    const isSeen = !(to(each) < (ends[row(each)] ?? -1) + 1);
    if (isSeen) ends[row(each)] = Math.max(to(each), from(each) + MIN_BAR);
    return isSeen;
  });
}

/** The numbers of iterations, the lengths of folded waits, and the end. @param {any} props */
function Labels({ run, place, folds }) {
  const names = run.iterations.map((/** @type {any} */ each) => ({ at: place(each.started), row: "", text: String(each.number) }));
  const waits = folds.map((/** @type {any} */ each) => ({ at: place(each.from), row: each.kind, text: `${span(each.to - each.from)}, folded` }));
  const shown = apart([...names, ...waits], (each) => each.at, (each) => each.at + LABEL, (each) => each.row).filter((each) => each.row || each.at < WIDTH - LABEL);
  return html`<svg class=${`labels ${folds.length ? "two" : ""}`} aria-hidden="true">
    ${shown.map(({ at, row, text }) => html`<text class=${row} x=${`${at / 10}%`} y=${row ? 28 : 13} text-anchor=${at > 700 ? "end" : "start"}>${text}</text>`)}
    <text x="100%" y="13" text-anchor="end">${run.end || !isLive ? clock(run.last) : "now"}</text></svg>`;
}

/** @param {{run: import("../run_model.js").Run, times: ReturnType<typeof timelineOf>, until: number, onPick: (number: number, id: string) => void}} props */
export function Strip({ run, times, until, onPick }) {
  if (!run.first) return null;
  const { bars, place, folds } = times;
  const calls = run.iterations.reduce((sum, each) => sum + each.calls.length, 0);
  const sentence = `${run.iterations.length} iterations with ${calls} tool calls in ${span(until - run.first)}${folds.length ? `, of which ${span(folds.reduce((sum, each) => sum + each.to - each.from, 0))} were waits` : ""}.`;
  return html`<div class="timeline"><svg class="strip" viewBox=${`0 0 ${WIDTH} 84`} preserveAspectRatio="none" role="img" aria-label=${sentence}>
    <defs>${["person", "held"].map((kind) => html`<pattern id=${`hatch-${kind}`} width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class=${`hatch ${kind}`} width="4" height="7" /></pattern>`)}</defs>
    ${apart(run.iterations, (each) => place(each.started)).map((each) => html`<line class="tick" x1=${place(each.started)} x2=${place(each.started)} y1="4" y2="80" />`)}
    ${apart(bars, (each) => place(each.from), (each) => place(each.to), (each) => `${each.lane} ${each.kind}`).map((each) => html`<rect class=${`bar ${each.kind}`} x=${place(each.from)} y=${8 + each.lane * 16} rx="2" height="10" fill=${["person", "held"].includes(each.kind) ? `url(#hatch-${each.kind})` : undefined}
      width=${Math.max(place(each.to) - place(each.from), MIN_BAR)} onClick=${() => onPick(each.number, each.id)}>
      <title>${`${plain(each.name)}, ${clock(each.from)}, ${span(each.to - each.from)}`}</title></rect>`)}
    ${folds.map((each) => html`<path class=${`fold ${each.kind}`} d=${`M${place(each.from) + 20} 4l4 12l-6 12l6 12l-6 12l6 12l-4 12`}><title>${span(each.to - each.from)}, folded</title></path>`)}
  </svg><${Labels} run=${run} place=${place} folds=${folds} /></div>`;
}
