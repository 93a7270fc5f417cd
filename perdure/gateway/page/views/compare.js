/** Two runs side by side, such as a fork and its original: alike iterations folded, the first difference in view. */
import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "../api.js";
import { counted, indented, inLine, money, plain, span, title, tokens } from "../format.js";
import { html } from "../html.js";
import { Trouble } from "../parts/basics.js";
import { readRun, usageOf } from "../run_model.js";
import { link, once } from "../state.js";

/** @typedef {import("../run_model.js").Run} Run @typedef {import("../run_model.js").Iteration} Iteration */

/** Longer texts are shown without marks: a comparison by words takes quadratic time. */
const MAX_CHARS = 20_000;
/** What all comparisons of a page may take: texts that differ in very many words are shown without marks, too. */
const MAX_DIFF_MS = 3000;

/** Compares words until its time is over; then undefined. @param {any} module @param {number} left in ms */
export function differ(module, left = MAX_DIFF_MS) {
  return (/** @type {string} */ before, /** @type {string} */ after) => {
    const began = performance.now();
    const found = module.diffWordsWithSpace(before, after, { timeout: Math.max(left, 1) });
    left -= performance.now() - began;
    return found;
  };
}

/** @param {{id: string, other: string}} props */
export function Compare({ id, other }) {
  const [runs, setRuns] = useState(/** @type {Run[] | null} */ (null));
  const [diff, setDiff] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [copied, setCopied] = useState(0);
  const [given, setGiven] = useState("");
  const first = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (!other) return undefined;
    // @ts-ignore: the package has no types of its own.
    return once(() => Promise.all([readRun(other), readRun(id), get(`/runs/${encodeURIComponent(id)}/setup`), import("diff")]).then(([left, right, { forkOf }, module]) => {
      setDiff(() => differ(module));
      setCopied(forkOf?.run === other ? forkOf.at - 1 : 0);
      setRuns([left, right]);
      setProblem(null);
    }, (error) => { setProblem(error); throw error; }));
  }, [id, other]);
  useEffect(() => first.current?.scrollIntoView({ block: "center" }), [runs]);
  if (!other) return html`<main class="narrow"><h1>Compare ${plain(id)}</h1><form onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); location.hash = link("run", id, "compare", given.trim()); }}>
    <label for="other-run">With the run</label><input type="text" id="other-run" value=${given} onInput=${(/** @type {any} */ event) => setGiven(event.currentTarget.value)} /><p><button class="primary" disabled=${!given.trim()}>Compare</button></p></form></main>`;
  const pairs = runs ? paired(runs[0], runs[1], copied) : [];
  const differs = pairs.findIndex((each) => !each.isAlike);
  return html`<main><h1>Two runs compared</h1><${Trouble} error=${problem} />
    ${!runs && !problem && html`<p class="about">Loading…</p>`}
    ${runs && html`<div class="wide" tabindex="0"><table class="totals"><thead><tr><td></td><th><a href=${link("run", other)}>${plain(other)}</a></th><th><a href=${link("run", id)}>${plain(id)}</a></th></tr></thead><tbody>
      ${FIGURES.map(([name, of]) => html`<tr><td>${name}</td>${runs.map((run) => html`<td>${of(run)}</td>`)}</tr>`)}</tbody></table></div>
      ${copied > 0 && html`<p class="about">${plain(id)} is a fork of ${plain(other)} before iteration ${copied + 1}: it has copied ${counted(copied, "iteration")}, and its own iteration 1 stands beside iteration ${copied + 1}.</p>`}
      <p>${differs < 0 ? "No difference in words, calls and results." : `The first difference is in iteration ${differs + 1}.`}</p>
      ${folded(pairs).map((each) => "alike" in each ? html`<${Alike} pairs=${each.alike} />`
        : html`<section class="pair" ref=${each.number === differs + 1 ? first : undefined}><h2>Iteration ${each.number}</h2><div class="sides"><${Side} mine=${each.left} others=${each.right} sign="removed" diff=${diff} /><${Side} mine=${each.right} others=${each.left} sign="added" diff=${diff} /></div></section>`)}
      <section class="pair"><h2>End</h2><div class="sides">${runs.map((run, index) => html`<div><strong>${run.end ? title(run.end.type) : "Under way"}</strong><${Marked} mine=${endOf(run)} others=${endOf(runs[1 - index])} sign=${index ? "added" : "removed"} diff=${diff} /></div>`)}</div></section>`}</main>`;
}

/** @param {Run} run */
const endOf = (run) => run.end?.response ?? run.end?.message ?? "";

/** @type {[string, (run: Run) => string | number][]} */
const FIGURES = [
  ["Iterations", (run) => run.iterations.length],
  ["Tool calls", (run) => run.iterations.reduce((sum, each) => sum + each.calls.length, 0)],
  ["Tokens", (run) => tokens(usageOf(run).input + usageOf(run).output)],
  ["Cost", (run) => money(usageOf(run).cost) || "unknown"],
  ["Time", (run) => span(run.last - run.first)],
];

/** What an iteration said and did. @param {Iteration | undefined} each */
const deedOf = (each) => (each ? JSON.stringify([each.text, each.said.map((said) => said.text), each.calls.map((call) => [call.name, call.arguments, call.result])]) : "");

/** The iterations by the numbers of the left run. A fork has copied the first ones, and counts its own from 1.
 * @param {Run} left @param {Run} right @param {number} copied */
function paired(left, right, copied) {
  return Array.from({ length: Math.max(left.iterations.length, right.iterations.length + copied) }, (_, index) => {
    const [one, two] = [left.iterations[index], right.iterations[index - copied]];
    return { number: index + 1, left: one, right: two, isAlike: index < copied || deedOf(one) === deedOf(two) };
  });
}

/** Alike neighbours as one. @param {ReturnType<typeof paired>} pairs */
function folded(pairs) {
  /** @type {any[]} */
  const found = [];
  for (const each of pairs) {
    if (!each.isAlike) found.push(each);
    else if (found.at(-1)?.alike) found.at(-1).alike.push(each);
    else found.push({ alike: [each] });
  }
  return found;
}

/** @param {{pairs: any[]}} props */
function Alike({ pairs }) {
  return html`<details class="alike"><summary>${counted(pairs.length, "iteration")} alike</summary>
    ${pairs.map((each) => html`<p><strong>${each.number}</strong> ${plain(each.left.text).slice(0, 200)} ${each.left.calls.map((/** @type {any} */ call) => html`<code>${plain(call.name)}</code> ${inLine(call.arguments).slice(0, 80)} `)}</p>`)}</details>`;
}

/** @param {{mine: Iteration | undefined, others: Iteration | undefined, sign: string, diff: any}} props */
function Side({ mine, others, sign, diff }) {
  if (!mine) return html`<div class="about">There is no such iteration.</div>`;
  return html`<div>${mine.said.map((said, index) => html`<div class="said"><${Marked} mine=${said.text} others=${others?.said[index]?.text} sign=${sign} diff=${diff} /></div>`)}
    <${Marked} mine=${mine.text} others=${others?.text} sign=${sign} diff=${diff} />
    ${mine.calls.map((call, index) => {
      const its = others?.calls[index]?.name === call.name ? others.calls[index] : undefined;
      return html`<div class="call"><div class="line"><code class=${its ? "" : sign}>${plain(call.name)}</code></div>
        <${Marked} mine=${indented(call.arguments)} others=${its && indented(its.arguments)} sign=${sign} diff=${diff} mono=${true} />
        <${Marked} mine=${indented(call.result ?? "")} others=${its && indented(its.result ?? "")} sign=${sign} diff=${diff} mono=${true} /></div>`;
    })}</div>`;
}

/** A text with the words marked that the other one lacks. @param {{mine: string, others: string | undefined, sign: string, diff: any, mono?: boolean}} props */
function Marked({ mine, others, sign, diff, mono = false }) {
  if (!mine) return null;
  const isLong = mine.length + (others?.length ?? 0) > MAX_CHARS;
  const parts = others === undefined || mine === others || isLong ? [{ value: mine, mark: others === undefined }]
    : (diff(plain(others), plain(mine)) ?? [{ value: mine }]).filter((/** @type {any} */ each) => !each.removed).map((/** @type {any} */ each) => ({ value: each.value, mark: each.added }));
  return html`<pre class=${mono ? "marked" : "marked prose"} tabindex="0">${parts.map((/** @type {any} */ each) => (each.mark ? html`<mark class=${sign}>${plain(each.value)}</mark>` : plain(each.value)))}</pre>`;
}
