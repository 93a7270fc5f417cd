/** The list of runs: those that wait for a person, held, working, ended. */
import { useEffect, useState } from "preact/hooks";
import { glance } from "../api.js";
import { inLine, moment, money, plain, span, title, tokens } from "../format.js";
import { html } from "../html.js";
import { address, approvals, link, now, refine, repeat } from "../state.js";
import { State, Trouble } from "../parts/basics.js";
import { keyOf, lasts, useLast } from "../parts/last_line.js";

const NAMES = /** @type {Record<string, string>} */ ({ running: "working" });
/** @type {[string, string][]} */
const PERIODS = [["1", "Last 24 hours"], ["7", "Last 7 days"], ["30", "Last 30 days"]];
/** The beginning of the last days, to the minute, so that requests are alike. @param {string} days */
const begin = (days) => (days ? `${new Date(Date.now() - Number(days) * 86400000).toISOString().slice(0, 16)}:00Z` : "");
const STATUSES = ["running", "waiting", "held", "done", "failed", "cancelled"];
const seconds = (/** @type {string | null} */ iso) => (iso ? Date.parse(iso) / 1000 : 0);

/** What of the list fits the words of a search. @param {any} run @param {string} words */
function fits(run, words) {
  const text = [run.id, run.title, run.agent, run.session, run.tenant, run.status].join(" ").toLowerCase();
  return words.toLowerCase().split(/\s+/).filter(Boolean).every((word) => text.includes(word));
}

/** Runs that a list shows at most. */
const MOST = 1000;

export function Runs() {
  const { query } = address.value;
  const words = query.get("q") ?? "";
  const status = query.get("status") ?? "";
  const period = query.get("since") ?? "";
  const [counts, setCounts] = useState(/** @type {any} */ (null));
  const [runs, setRuns] = useState(/** @type {any[] | null} */ (null));
  const [limit, setLimit] = useState(100);
  const [loaded, setLoaded] = useState(100);
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  useEffect(
    () =>
      repeat(async () => {
        try {
          setRuns(await glance("/runs", { limit, status, since: begin(period) }));
          setLoaded(limit);
          setProblem(null);
        } catch (error) {
          setProblem(error);
          throw error;
        }
      }),
    [status, limit, period],
  );
  useEffect(() => repeat(async () => setCounts(await glance("/counts", { since: begin(period) }, 10)), 10000), [period]);
  const shown = (runs ?? []).filter((each) => fits(each, words));
  const of = (/** @type {string[]} */ ...names) => shown.filter((each) => names.includes(each.status));
  const asked = new Set(approvals.value.map((each) => each.runId));
  const waits = approvals.value.filter((each) => (!status || status === "waiting") && fits({ id: each.runId, agent: each.agent, status: "waiting" }, words));
  const ended = shown.filter((each) => each.closed);
  const days = Map.groupBy(ended, (each) => new Date(each.closed).toDateString());
  const today = new Date().toDateString();
  return html`<main>
    <h1 class="unseen">Runs</h1>
    <div class="filters">
      <input id="search" type="search" placeholder="Title, id, agent, session" aria-label="Search runs" value=${words}
        onInput=${(/** @type {any} */ event) => refine({ q: event.currentTarget.value })} />
      <select aria-label="Status" value=${status} onChange=${(/** @type {any} */ event) => refine({ status: event.currentTarget.value })}>
        <option value="">Any status</option>${STATUSES.map((each) => html`<option value=${each}>${title(each)}</option>`)}
      </select>
      <select aria-label="Period" value=${period} onChange=${(/** @type {any} */ event) => refine({ since: event.currentTarget.value })}>
        <option value="">Any time</option>${PERIODS.map(([value, name]) => html`<option value=${value}>${name}</option>`)}
      </select>
      <a class="button primary" href=${link("start")}>Start a run</a>
    </div>
    ${counts && html`<p class="about counts">${STATUSES.filter((each) => counts[each]).map((each) => html`<button class="quiet" aria-pressed=${status === each} onClick=${() => refine({ status: status === each ? "" : each })}>${counts[each].toLocaleString()} ${NAMES[each] ?? each}</button>`)}
      <span>${totals(shown)}</span></p>`}
    <${Trouble} error=${problem} />
    ${runs === null && !problem && html`<p class="about">Loading…</p>`}
    ${runs?.length === 0 && !status && html`<section class="empty"><h2>No runs yet</h2><p>Start one here, or type <code>perdure run FILE</code>.</p></section>`}
    ${runs && runs.length + waits.length > 0 && !shown.length && !waits.length && html`<p>No run fits. <button class="quiet" onClick=${() => refine({ q: "", status: "", since: "" })}>Clear filters</button></p>`}
    ${waits.length > 0 && html`<${Section} name="Waiting for a person" colour="person" count=${waits.length} note="longest first">
      ${waits.map((each) => html`<${Wait} key=${each.runId + each.call.call_id} wait=${each} />`)}<//>`}
    <${Part} name="Waiting" colour="person" runs=${of("waiting").filter((each) => !asked.has(each.id))} />
    <${Part} name="Held up" colour="held" note="Nothing is lost. These resume once the cause is gone." runs=${of("held")} />
    <${Part} name="Working" colour="working" runs=${of("running")} />
    ${[...days].map(([day, found]) => html`<${Part} key=${day} name=${day === today ? "Ended today" : `Ended ${day}`} colour="" runs=${found} note=${ends(found)} />`)}
    ${runs && runs.length >= loaded && loaded < MOST && html`<button disabled=${limit > loaded} onClick=${() => setLimit(Math.min(limit * 2, MOST))}>${limit > loaded ? "Loading…" : "Show more"}</button>`}
    ${runs && runs.length >= MOST && html`<p class="about">The newest ${MOST.toLocaleString()} are shown: choose a status or a period for others.</p>`}
  </main>`;
}

/** Cost and tokens of the runs that are shown. @param {any[]} runs */
function totals(runs) {
  const sum = (/** @type {(run: any) => number | null | undefined} */ of) => runs.reduce((all, each) => all + Number(of(each) ?? 0), 0);
  const cost = sum((each) => lasts.value.get(keyOf(each))?.cost ?? each.costUsd);
  const read = sum((each) => lasts.value.get(keyOf(each))?.tokens);
  const parts = [cost ? money(cost) : "", read ? `${tokens(read)} tokens` : ""].filter(Boolean);
  return parts.length ? `shown: ${parts.join(", ")}` : "";
}

/** @param {any[]} runs */
function ends(runs) {
  const cost = runs.reduce((sum, each) => sum + (each.costUsd ?? 0), 0);
  const counts = ["done", "failed", "cancelled"].map((name) => [runs.filter((each) => each.status === name).length, name]).filter(([count]) => count);
  return [...counts.map(([count, name]) => `${count} ${name}`), cost ? money(cost) : ""].filter(Boolean).join(" · ");
}

/** @param {any} props */
function Section({ name, colour, count, note, children, isTable = false }) {
  return html`<section aria-label=${name}><div class="section-head"><h2 class=${colour}>${name} <span class="count">${count}</span></h2><span class="about">${note}</span>${isTable && html`<span class="figures about" aria-hidden="true"><span>Iter.</span><span>Tokens</span><span>Cost</span></span>`}</div>
    <ul class=${`list ${colour}`}>${children}</ul></section>`;
}

/** @param {any} props */
function Part({ name, colour, runs, note = "" }) {
  if (!runs.length) return null;
  return html`<${Section} name=${name} colour=${colour} count=${runs.length} note=${note} isTable=${true}>
    ${runs.map((/** @type {any} */ run) => html`<${Row} key=${run.id} run=${run} />`)}<//>`;
}

/** @param {{wait: any}} props */
function Wait({ wait }) {
  const { call, runId, agent } = wait;
  const isQuestion = call.kind === "question";
  return html`<li><a class="run" href=${link("run", runId, "decide", call.call_id)}>
    <${State} status="waiting" />
    <span class="what"><span class="title">${isQuestion ? plain(call.question) : html`<code>${plain(call.name)}</code> ${inLine(call.arguments).slice(0, 80)}`}</span>
      <span class="about">${plain(agent ?? "")} · <code>${plain(runId)}</code></span></span>
    <span class="last">${isQuestion ? `A question with ${call.choices.length || "no"} choices` : plain(call.description ?? "")}</span>
    <span class="when"><strong class="person">${span(now.value - call.since)}</strong><span class="about">${call.deadline ? `denied in ${span(call.deadline - now.value)}` : "no deadline"}</span></span>
    <span class="button">${isQuestion ? "Answer" : "Review"}</span>
  </a></li>`;
}

/** @param {{run: any}} props */
function Row({ run }) {
  const from = seconds(run.started);
  const { place, last } = useLast(run);
  return html`<li ref=${place}><a class="run" href=${link("run", run.id)}>
    <${State} status=${run.status} />
    <span class="what"><span class="title">${run.title ? plain(run.title) : html`<code>${plain(run.id)}</code>`}</span>
      <span class="about">${plain(run.agent ?? "")}${run.title ? html` · <code>${plain(run.id)}</code>` : ""}${run.session ? html` · session ${plain(run.session)}` : ""}${run.tenant ? ` · ${plain(run.tenant)}` : ""}</span></span>
    <span class=${`last ${last?.colour ?? ""}`}>${plain(last ? last.text.slice(0, 200).replace(/\*\*|`|^#+ /g, "") : title(run.status))}</span>
    <span class="figures"><span>${last?.iterations ?? ""}</span><span>${last?.tokens ? tokens(last.tokens) : ""}</span><span>${money(last?.cost ?? (run.costUsd || null))}</span></span>
    <span class="when"><span>${span((run.closed ? seconds(run.closed) : now.value) - from)}</span><span class="about">started ${moment(from)}</span></span>
  </a></li>`;
}
