/** Operate: findings, workers and queues, held runs and pauses, schedules, totals. */
import { useEffect, useState } from "preact/hooks";
import { get, glance, post } from "../api.js";
import { counted, moment, money, plain, span } from "../format.js";
import { html } from "../html.js";
import { Act, State, Sure, Trouble } from "../parts/basics.js";
import { useLast } from "../parts/last_line.js";
import { link, now, repeat } from "../state.js";

/** What a path answers, read again every few seconds, and at once by `again`. @param {string} path @param {Record<string, unknown>} [query] */
function useList(path, query) {
  const [found, setFound] = useState(/** @type {any[] | null} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const read = async (/** @type {(path: string, query?: Record<string, unknown>) => Promise<any>} */ how) => {
    try {
      setFound(await how(path, query));
      setProblem(null);
    } catch (error) {
      setProblem(error);
      throw error;
    }
  };
  useEffect(() => repeat(() => read((path, query) => glance(path, query, 8)), 8000), []);
  return { found, problem, again: () => read(get).catch(() => undefined) };
}

export function Operate() {
  return html`<main><h1 class="unseen">Operate</h1>
    <${Doctor} /><${HeldRuns} /><${Pauses} /><${Schedules} /><${Totals} /></main>`;
}

/** @param {any} props */
function Part({ name, note = "", problem = null, children }) {
  return html`<section aria-label=${name} class="part"><div class="section-head"><h2>${name}</h2><span class="about">${note}</span></div>
    <${Trouble} error=${problem} />${children}</section>`;
}

/** Findings, and the workers that have answered. */
function Doctor() {
  const [found, setFound] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const examine = () => get("/doctor").then((each) => { setFound(each); setProblem(null); }, setProblem);
  useEffect(() => void examine(), []);
  const note = found ? `${plain(found.server.address)}, version ${plain(found.server.version)}, namespace ${plain(found.server.namespace)}` : "";
  return html`<${Part} name="Findings" note=${note} problem=${problem}>
    ${!found && !problem && html`<p class="about">Examining…</p>`}
    ${found?.findings.length === 0 && html`<p class="done">✓ No faults found.</p>`}
    ${found?.findings.length > 0 && html`<ul class="list">${found.findings.map((/** @type {any} */ each) => html`<li class="finding"><strong class=${each.level === "error" ? "failed" : "person"}>${each.level === "error" ? "✕ error" : "● warning"}</strong>
      <div>${plain(each.text)}${each.do && html`<div class="about">→ ${plain(each.do)}</div>`}</div></li>`)}</ul>`}
    <p><${Act} act=${examine} busy="Examining…">Examine again<//></p>
  <//>
  ${found && html`<${Part} name="Workers" note="those that have polled of late">
    ${found.queues.map((/** @type {any} */ queue) => html`<section class="card"><div class="card-head"><span>Queue <code>${plain(queue.name)}</code></span><span class="about">${counted(queue.openRuns, "open run")}${queue.currentVersion ? `, current version ${plain(queue.currentVersion)}` : ""}</span></div>
      <div class="card-body">${queue.workers.length === 0 && html`<p class="held">No worker. Its runs are safe, and resume when one starts.</p>`}
        ${queue.workers.map((/** @type {any} */ each) => html`<div class="worker"><span class=${`state ${each.has ? "done" : each.isGone ? "cancelled" : "failed"}`}><span aria-hidden="true">●</span> ${each.has ? "answers" : each.isGone ? "gone" : "does not answer"}</span> <code>${plain(each.identity)}</code>${" "}
          <span class="about">${each.version ? `${plain(each.version)}, ` : ""}${each.has ? `perdure ${plain(each.has.perdure)}` : `polled ${span(each.polledBefore)} ago`}</span>
          ${each.has && html`<div class="about">Tools: ${each.has.tools.length ? each.has.tools.map((/** @type {string} */ tool, /** @type {number} */ index) => html`${index ? ", " : ""}<code>${plain(tool)}</code>`) : "none"}</div>`}</div>`)}</div></section>`)}
  <//>`}`;
}

function HeldRuns() {
  const { found, problem, again } = useList("/runs", { status: "held", limit: 100 });
  return html`<${Part} name="Held runs" note=${found?.length ? "Nothing is lost." : ""} problem=${problem}>
    ${found?.length === 0 && html`<p class="about">No run is held.</p>`}
    ${found && found.length > 0 && html`<ul class="list">${found.map((each) => html`<${HeldRow} key=${each.id} run=${each} again=${again} />`)}</ul>`}<//>`;
}

/** @param {any} props */
function HeldRow({ run, again }) {
  const { place, last } = useLast(run);
  return html`<li ref=${place} class="operated"><${State} status="held" />
    <span class="what"><a href=${link("run", run.id)}>${plain(run.title || run.id)}</a><span class="about">${plain(run.agent ?? "")} · <code>${plain(run.id)}</code></span><span class="held">${plain(last?.text ?? "")}</span></span>
    <${Act} act=${async () => { await post(`/runs/${encodeURIComponent(run.id)}/go-on`); again(); }}>Go on<//></li>`;
}

/** @param {any} scope */
const scopeText = (scope) => [scope.agent && `agent ${scope.agent}`, scope.tenant && `tenant ${scope.tenant}`, scope.task_queue && `queue ${scope.task_queue}`, scope.runs?.length && (scope.runs.length === 1 ? `run ${scope.runs[0]}` : counted(scope.runs.length, "run"))].filter(Boolean).join(", ") || "all runs";

function Pauses() {
  const { found, problem, again } = useList("/pauses");
  const [agent, setAgent] = useState("");
  const [reason, setReason] = useState("");
  const pause = async () => {
    await post("/pauses", { agent: agent.trim() || null, all: !agent.trim(), reason });
    setAgent("");
    setReason("");
    again();
  };
  return html`<${Part} name="Pauses" note="Paused runs make no further call, those that start later neither." problem=${problem}>
    ${found?.length === 0 && html`<p class="about">Nothing is paused.</p>`}
    ${found && found.length > 0 && html`<ul class="list">${found.map((each) => html`<li key=${each.id} class="operated"><span class="held" aria-hidden="true">◌</span><span class="what"><span>${plain(scopeText(each.scope))}</span>
      <span class="about">since ${moment(each.since)}${each.by ? ` by ${plain(each.by)}` : ""}${each.reason ? `: ${plain(each.reason)}` : ""}</span></span>
      <${Act} act=${async () => { await post(`/pauses/${encodeURIComponent(each.id)}/release`); again(); }}>Release<//></li>`)}</ul>`}
    ${found && html`<div class="filters pausing"><input type="text" aria-label="Agent to pause" placeholder="Agent, or empty for all runs" value=${agent} onInput=${(/** @type {any} */ event) => setAgent(event.currentTarget.value)} />
      <input type="text" aria-label="Reason for the pause" placeholder="Why" value=${reason} onInput=${(/** @type {any} */ event) => setReason(event.currentTarget.value)} />
      <${Sure} kind="" sentence=${agent.trim() ? `All runs of ${agent.trim()} stop before their next call.` : "All runs of the namespace stop before their next call."} confirm="Pause them" act=${pause}>Pause…<//></div>`}<//>`;
}

function Schedules() {
  const { found, problem, again } = useList("/schedules");
  const act = (/** @type {string} */ name, /** @type {string} */ action) => async () => {
    await post(`/schedules/${encodeURIComponent(name)}/${action}`);
    again();
  };
  return html`<${Part} name="Schedules" problem=${problem}>
    ${found?.length === 0 && html`<p class="about">No schedules. Make one: <code>perdure schedule create NAME AGENT.prompty --cron '0 7 * * 1'</code></p>`}
    ${found && found.length > 0 && html`<ul class="list">${found.map((each) => html`<li key=${each.name} class="operated"><span class=${each.paused ? "held" : "done"} aria-hidden="true">${each.paused ? "◌" : "◔"}</span>
      <span class="what"><strong>${plain(each.name)}</strong><span class="about">${plain(each.agent)}, ${each.every ? `every ${span(each.every)}` : `${plain(each.cron.join(", "))} (${plain(each.timezone)})`} · ${counted(each.started, "run")} started${each.runs.length ? html`, last <a href=${link("run", each.runs[0])}>${plain(each.runs[0])}</a>` : ""}</span></span>
      <span class="about">${each.paused ? "paused" : each.next.length ? `next ${moment(Date.parse(each.next[0]) / 1000)}` : "no next time"}</span>
      <span><${Act} act=${act(each.name, each.paused ? "resume" : "pause")}>${each.paused ? "Resume" : "Pause"}<//> <${Act} act=${act(each.name, "run")}>Run now<//></span></li>`)}</ul>`}<//>`;
}

const DAYS = 14;
const NEWEST = 1000;

/** Runs, failures and cost of the last days, by day and by agent. */
function Totals() {
  const [since] = useState(() => `${new Date(now.peek() * 1000 - (DAYS - 1) * 86400000).toISOString().slice(0, 10)}T00:00:00Z`);
  const { found, problem } = useList("/runs", { limit: NEWEST, since });
  if (!found) return html`<${Part} name="Totals" problem=${problem} />`;
  const days = Array.from({ length: DAYS }, (_, index) => new Date(Date.parse(since) + index * 86400000).toISOString().slice(0, 10));
  const byDay = Map.groupBy(found, (each) => each.started.slice(0, 10));
  const byAgent = [...Map.groupBy(found, (each) => each.agent ?? "")].map(([name, runs]) => ({ name, ...totalsOf(runs) })).sort((a, b) => b.runs - a.runs);
  const bars = days.map((day) => ({ day, ...totalsOf(byDay.get(day) ?? []) }));
  const most = Math.max(1, ...bars.map((each) => each.runs));
  const dearest = Math.max(1e-9, ...bars.map((each) => each.cost));
  const chart = (/** @type {string} */ label, /** @type {(each: any) => [number, number, string]} */ parts) => html`<figure><figcaption class="about">${label}</figcaption>
    <svg class="chart" viewBox=${`0 0 ${DAYS * 20} 80`} preserveAspectRatio="none" role="img" aria-label=${`${label}: ${bars.map((each) => `${each.day} ${parts(each)[2]}`).join(", ")}`}>
      ${bars.map((each, index) => {
        const [all, bad, words] = parts(each);
        return html`<g><title>${`${each.day}: ${words}`}</title><rect class="all" x=${index * 20 + 2} width="16" y=${78 - 76 * all} height=${76 * all} /><rect class="bad" x=${index * 20 + 2} width="16" y=${78 - 76 * bad} height=${76 * bad} /></g>`;
      })}<line x1="0" x2=${DAYS * 20} y1="79" y2="79" /></svg><div class="chart-days about"><span>${days[0]}</span><span>${days.at(-1)}</span></div></figure>`;
  return html`<${Part} name="Totals" note=${found.length >= NEWEST ? `of the newest ${NEWEST.toLocaleString()} runs` : `of the last ${DAYS} days`} problem=${problem}>
    <div class="charts">${chart("Runs by day, failures in red", (each) => [each.runs / most, each.failed / most, `${counted(each.runs, "run")}, ${each.failed} failed`])}
      ${chart("Cost by day", (each) => [each.cost / dearest, 0, money(each.cost)])}</div>
    <div class="wide" tabindex="0"><table><thead><tr><th>Agent</th><th>Runs</th><th>Open</th><th>Failed</th><th>Cost</th></tr></thead><tbody>
      ${byAgent.map((each) => html`<tr><td>${plain(each.name) || "unknown"}</td><td>${each.runs}</td><td>${each.open}</td><td class=${each.failed ? "failed" : ""}>${each.failed}</td><td>${money(each.cost)}</td></tr>`)}</tbody></table></div><//>`;
}

/** @param {any[]} runs */
const totalsOf = (runs) => ({
  runs: runs.length, open: runs.filter((each) => !each.closed).length,
  failed: runs.filter((each) => ["failed", "timed_out"].includes(each.status)).length,
  cost: runs.reduce((sum, each) => sum + (each.costUsd ?? 0), 0),
});
