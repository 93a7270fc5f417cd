/** A run as it happens: strip of time, conversation, inspector, composer, events. */
import { useEffect, useRef, useState } from "preact/hooks";
import { follow, get, glance, isLive, post } from "../api.js";
import { clock, counted, indented, inLine, moment, money, plain, span, tokens } from "../format.js";
import { html } from "../html.js";
import { Act, colourOf, Folded, Markdown, State, Sure, Trouble } from "../parts/basics.js";
import { Bill } from "../parts/bill.js";
import { byOf, CallRow } from "../parts/call.js";
import { Called, FEW } from "../parts/called.js";
import { Composer } from "../parts/composer.js";
import { Decision, Unused } from "../parts/decision.js";
import { Held } from "../parts/held.js";
import { Media } from "../parts/media.js";
import { markdownOf } from "../parts/markdown_of.js";
import { Strip, timelineOf } from "../parts/strip.js";
import { emptyRun, saidOf, take, textOf, usageOf, waiting, wordsBefore } from "../run_model.js";
import { address, announcement, isVisible, link, now, once, repeat } from "../state.js";

const OPEN_LAST = 5;
const MANY = 12;
/** Of more iterations than these, the earlier ones are drawn on request. */
const DRAWN = 200;
const MAX_PAINT_MS = 1500;

/** The run of an id, as its events arrive. @param {string} id */
function useRun(id) {
  const run = useRef(emptyRun());
  const [drawn, paint] = useState(run.current);
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [isLoaded, setLoaded] = useState(false);
  const visible = isVisible.value;
  useEffect(() => {
    paint((run.current = emptyRun()));
    setProblem(null);
    setLoaded(false);
  }, [id]);
  useEffect(() => {
    if (!visible || run.current.end) return undefined;
    const abort = new AbortController();
    let isPainting = false;
    let cost = 0;
    const draw = () => {
      if (isPainting) return;
      isPainting = true;
      // A long run takes long to draw: what comes meanwhile is drawn together.
      setTimeout(() => requestAnimationFrame(() => {
        isPainting = false;
        setLoaded(true);
        paint({ ...run.current });
        const began = performance.now();
        setTimeout(() => (cost = performance.now() - began));
      }), Math.min(4 * cost, MAX_PAINT_MS));
    };
    follow(`/runs/${encodeURIComponent(id)}/events`, run.current.position, (event) => {
      take(run.current, event);
      draw();
      return Boolean(run.current.end);
    }, abort.signal, setProblem);
    return () => abort.abort();
  }, [id, visible]);
  return { run: drawn, problem, setProblem, isLoaded };
}

/** The messages with which the run began, before an event has them. @param {string} id @param {import("../run_model.js").Run} run @param {boolean} isLoaded */
function useInput(id, run, isLoaded) {
  const [messages, setMessages] = useState(/** @type {any[]} */ ([]));
  const isMissing = isLoaded && !run.messages.length;
  useEffect(() => {
    if (isMissing) get(`/runs/${encodeURIComponent(id)}/messages`).then(setMessages, () => undefined);
  }, [id, isMissing]);
  if (run.messages.length) return run.iterations[0]?.said ?? [];
  const reply = messages.findIndex((each) => each.role === "assistant");
  return messages.slice(0, reply < 0 ? undefined : reply).filter((each) => each.role === "user").map((each) => saidOf(each, "input"));
}

/** @param {{id: string, deciding?: string}} props */
export function Run({ id, deciding = "" }) {
  const { run, problem, setProblem, isLoaded } = useRun(id);
  const [view, setView] = useState(/** @type {any} */ (null));
  const [picked, pick] = useState("");
  const [tab, setTab] = useState("conversation");
  const [setup, setSetup] = useState(/** @type {any} */ (null));
  const [isPaused, setPaused] = useState(false);
  useEffect(() => {
    const load = async () => setView(await glance(`/runs/${encodeURIComponent(id)}`));
    if (!run.end) return repeat(load);
    load().catch(setProblem);
    return undefined;
  }, [id, run.end?.type]);
  useEffect(() => once(() => get(`/runs/${encodeURIComponent(id)}/setup`).then(setSetup)), [id]);
  useEffect(() => setPaused(false), [Boolean(run.held)]);
  const input = useInput(id, run, isLoaded);
  const end = run.end;
  const status = end?.type ?? (run.held ? "held" : waiting(run).length ? "waiting" : view?.state.status ?? "running");
  const isKnown = isLoaded || view !== null;
  useEffect(() => {
    if (isKnown) announcement.value = `Run ${id}: ${status.replace(/_/g, " ")}`;
  }, [status, isKnown]);
  if (problem?.status === 404) return html`<main><h1>No such run</h1><p>${plain(problem.message)}</p>${isLive && html`<p><a href=${link()}>All runs</a></p>`}</main>`;
  if (problem?.kind === "encrypted")
    return html`<main class="narrow"><p class="about"><a href=${link()}>Runs</a> › <code>${plain(id)}</code></p><h1>This run is encrypted</h1>
      <p class="note held">This gateway has no key for it, so the page shows that it exists, not what it does. Nobody decides what they cannot read.</p><p class="about">${plain(problem.message)}</p></main>`;
  const isOpen = isLive && !end;
  const until = end ? run.last : now.value;
  const times = timelineOf(run, until);
  const usage = usageOf(run);
  const calls = run.iterations.flatMap((each) => each.calls);
  const chosen = calls.find((each) => each.id === picked);
  const asked = deciding ? calls.find((each) => each.id === deciding) : undefined;
  if (asked)
    return html`<main class="narrow"><h1 class="unseen">A call that waits for a decision</h1><p><a href=${link("run", id)}>Run ${plain(id)}</a></p>
      ${asked.state === "waiting"
        ? html`<${Decision} runId=${id} request=${{ ...asked.request, call_id: asked.id, votes: asked.votes }} words=${wordsBefore(run, asked.id)} />`
        : html`<${Decided} runId=${id} call=${asked} />`}
      <${NextWait} id=${id} run=${run} /></main>`;
  const state = view?.state;
  const called = (state?.held ?? []).filter((/** @type {any} */ each) => each.run_id);
  const held = end ? [] : [...(run.held ? [run.held] : []), ...called];
  const limits = Object.fromEntries(Object.entries({ ...setup?.options, ...run.changed }).map(([name, value]) => [name, typeof value === "bigint" ? Number(value) : value]));
  return html`<main>
    <header class="run-head">
      <div><p class="about">${isLive && html`<a href=${link()}>Runs</a> › `}<code>${plain(id)}</code></p>
        <h1>${plain(input[0]?.text.split("\n")[0].slice(0, 120) || id)}</h1>
        <p class="facts"><${State} status=${status} words=${true} /> <strong>${plain(view?.agent ?? "")}</strong>
          ${run.first > 0 && html`<span>started ${moment(run.first)}</span><span>active <strong>${span(times.active)}</strong> of ${span(until - run.first)}</span>`}
          ${times.slept > 0 && html`<span class="held">no worker for ${span(times.slept)}</span>`}
          <span><strong>${tokens(usage.input)}</strong> in · <strong>${tokens(usage.output)}</strong> out${usage.cost !== null ? html` · <strong>${money(usage.cost)}</strong>` : ""}</span></p></div>
      <div class="actions">
        ${isLive && html`<a class="button" href=${link("run", id, "fork", String(run.iterations.at(-1)?.number ?? 1))}>Fork…</a>`}
        <${More} id=${id} agent=${view?.agent ?? ""} run=${run} setup=${setup} />
        ${isOpen && !held.length && html`<${Act} act=${() => post(`/runs/${encodeURIComponent(id)}/pause`).then(() => setPaused(true))} disabled=${isPaused}>${isPaused ? "Pausing" : "Pause"}<//>`}
        ${isOpen && html`<${Sure} sentence="A running tool finishes; nothing else starts." confirm="Cancel the run"
          act=${() => post(`/runs/${encodeURIComponent(id)}/cancel`, { reason: "" })}>Cancel run<//>`}
      </div>
    </header>
    <${Trouble} error=${problem} />
    ${deciding && isLoaded && view && html`<p class="note held">This link leads to the call <code>${plain(deciding)}</code>. The run has made no such call.</p>`}
    ${isOpen && state?.queue_without_worker && html`<${NoWorker} queue=${state.queue_without_worker} isPolled=${state.workers_are_busy} />`}
    ${isOpen && held.map((/** @type {any} */ each) => html`<${Held} key=${`${each.run_id ?? ""} ${each.since}`} id=${id} held=${each} options=${limits} />`)}
    <${Strip} run=${run} times=${times} until=${until} onPick=${(/** @type {number} */ number, /** @type {string} */ call) => {
      pick(call);
      document.getElementById(call ? `call-${call}` : `iteration-${number}`)?.scrollIntoView({ block: "center" });
    }} />
    <div class="columns"><div>
      <div class="tabs" role="tablist">${[["conversation", "Conversation"], ["events", `Events ${run.events.length}`], ["seen", "What the model sees"]].map(([name, label]) =>
        html`<button role="tab" aria-selected=${tab === name} onClick=${() => setTab(name)}>${label}</button>`)}</div>
      ${tab === "conversation" && html`<${Conversation} id=${id} run=${run} input=${input} picked=${picked} pick=${pick} isLoaded=${isLoaded} />`}
      ${tab === "events" && html`<${Events} events=${run.events} />`}
      ${tab === "seen" && html`<${Seen} messages=${run.messages} />`}
      ${isOpen && html`<${Composer} label="Tell the agent something. It reads it before its next model call." send=${(/** @type {string} */ text, /** @type {any[]} */ parts, /** @type {string} */ key) => post(`/runs/${encodeURIComponent(id)}/steer`, { text, messageId: key })} />`}
      ${isOpen && state?.pending_steering > 0 && html`<p class="about">${counted(state.pending_steering, "message")} queued: the agent reads them before its next model call.</p>`}
    </div><aside>
      ${chosen ? html`<${Inspector} id=${id} call=${chosen} close=${() => pick("")} />` : html`<${Bill} id=${id} run=${run} setup=${setup} limits=${limits} state=${state} seconds=${run.first ? until - run.first : 0} />`}
    </aside></div>
  </main>`;
}

/** @param {{queue: string, isPolled: boolean}} props */
function NoWorker({ queue, isPolled }) {
  if (isPolled) return html`<p class="note held">The workers on queue <code>${plain(queue)}</code> have not reached this run yet.</p>`;
  return html`<p class="note held">No worker on queue <code>${plain(queue)}</code>. The run is safe and resumes by itself when a worker starts: <code>perdure worker --task-queue ${plain(queue)} --tools …</code></p>`;
}

/** @param {any} props */
function Conversation({ id, run, input, picked, pick, isLoaded }) {
  const [drawn, draw] = useState(DRAWN);
  const list = run.iterations.slice(Math.max(0, run.iterations.length - drawn));
  const earlier = run.iterations.length - list.length;
  const isFolded = (/** @type {any} */ each, /** @type {number} */ index) => list.length > MANY && index > 0 && index < list.length - OPEN_LAST && !each.calls.some((/** @type {any} */ call) => ["failed", "waiting"].includes(call.state));
  return html`<div class="spine">
    ${!isLoaded && html`<p class="about">Loading…</p>`}
    ${earlier > 0 && html`<${Said} said=${input} /><p><button onClick=${() => draw(drawn + DRAWN)}>Show ${Math.min(DRAWN, earlier)} of ${counted(earlier, "earlier iteration")}</button></p>`}
    ${list.map((/** @type {any} */ each, /** @type {number} */ index) => html`<${IterationPart} key=${each.number} id=${id} run=${run} iteration=${each} folded=${isFolded(each, index)} said=${index || earlier ? each.said : input} picked=${picked} pick=${pick} />`)}
    ${run.end && html`<${End} id=${id} run=${run} />`}
  </div>`;
}

/** @param {any} props */
function IterationPart({ id, run, iteration, folded, said, picked, pick }) {
  const [isOpen, open] = useState(false);
  const { usage } = iteration;
  const isLast = run.iterations.at(-1) === iteration;
  const called = iteration.calls.flatMap((/** @type {any} */ each) => each.children);
  const isAnswer = run.end?.type === "done" && isLast;
  return html`<section class="iteration" id=${`iteration-${iteration.number}`}>
    <${Said} said=${said} />
    <h2><span class=${`number ${iteration.isWriting ? "working" : !run.end && iteration.calls.some((/** @type {any} */ each) => each.state === "waiting") ? "person" : ""}`}>${iteration.number}</span>
      <span class="about">${iteration.isWriting ? html`<span class="working">writing</span>` : iteration.modelEnded ? `model ${span(iteration.modelEnded - iteration.started)}` : run.end ? "" : "calling the model"}
        ${usage ? ` · ${usage.total_tokens.toLocaleString()} tokens` : ""} ${money(iteration.cost)}
        ${iteration.lostAttempts ? html` <span class="held">${counted(iteration.lostAttempts, "attempt")} lost with a worker</span>` : ""}</span>
      ${folded && html`<button class="quiet" onClick=${() => open(!isOpen)}>${isOpen ? "Fold" : `${counted(iteration.calls.length, "call")}, show`}</button>`}</h2>
    ${(!folded || isOpen) && html`
      ${iteration.thinking && html`<details><summary class="about">Thinking</summary><${Folded} text=${iteration.thinking} mono=${false} /></details>`}
      ${iteration.text && !isAnswer && html`<${Markdown} text=${iteration.text} />`}
      ${iteration.notes.map((/** @type {any} */ note) => html`<p class=${`line ${note.kind === "error" ? "failed" : "held"}`}>${clock(note.time)} ${plain(note.text)}</p>`)}
      ${iteration.calls.map((/** @type {any} */ call) => html`<${CallRow} key=${call.id} call=${call} hasTray=${called.length > FEW} isPicked=${picked === call.id} onPick=${() => pick(picked === call.id ? "" : call.id)} />
        ${call.state !== "waiting" && html`<${Unused} runId=${id} callId=${call.id} />`}
        ${call.state === "waiting" && isLive && !run.end && html`<${Decision} key=${`${call.id}-card`} runId=${id} request=${{ ...call.request, call_id: call.id, votes: call.votes }} words=${iteration.text} place=${html`<a href=${link("run", id, "decide", call.id)}>Open alone</a>`} />`}`)}
      ${called.length > FEW && html`<${Called} ids=${called} />`}`}
  </section>`;
}

/** @param {{said: any[]}} props */
function Said({ said }) {
  return said.map((each) => html`<div class=${`said ${each.role}`}><span class="about">${each.role === "input" ? "Input" : `${plain(each.by) || "Somebody"}, steering · read before this iteration`}</span><${Folded} text=${each.text} mono=${false} /><${Media} parts=${each.media} /></div>`);
}

/** @param {any} props */
function End({ id, run }) {
  const { end } = run;
  if (end.type === "done")
    return html`<section class="end"><h2 class="done">Answer</h2><${Markdown} text=${end.response} /><${Media} parts=${end.media} />
      ${end.cutShort && html`<p class="note held">The answer ends early: ${plain(end.cutShort)}.</p>`}
      <button onClick=${() => navigator.clipboard.writeText(end.response)}>Copy</button></section>`;
  const last = run.iterations.at(-1)?.number ?? 1;
  return html`<section class=${`end ${colourOf(end.type)}`}><h2 class=${colourOf(end.type)}>${end.type === "failed" ? "Failed" : "Cancelled"}</h2>
    ${end.message && html`<p>${plain(end.message)} <code>${plain(end.kind)}</code></p>`}
    ${isLive && html`<a class="button" href=${link("run", id, "fork", String(last))}>Fork before iteration ${last}</a>`}</section>`;
}

/** @param {{runId: string, call: import("../run_model.js").Call}} props */
function Decided({ runId, call }) {
  const { decision } = call;
  return html`<section class="card"><div class="card-body"><h2 tabindex="-1">${decision ? (typeof decision.answer === "string" ? "Answered" : decision.approved ? "Approved" : "Denied") : "This call does not wait"}</h2>
    <${Unused} runId=${runId} callId=${call.id} />
    ${decision && html`<p>${decision.by ? `Decided by ${byOf(decision)} at ${moment(decision.at)}.` : `Decided at ${moment(decision.at)}.`}</p>`}
    ${call.result !== null ? html`<${Folded} text=${call.result} />` : html`<p class="working">The tool runs.</p>`}</div></section>`;
}

/** @param {{id: string, run: import("../run_model.js").Run}} props */
function NextWait({ id, run }) {
  const next = waiting(run).filter((each) => each.id !== address.value.path[3]);
  if (!next.length) return null;
  return html`<p>Next in this run: <a href=${link("run", id, "decide", next[0].id)}>${plain(next[0].name)}</a></p>`;
}

/** @param {{id: string, call: import("../run_model.js").Call, close: () => void}} props */
function Inspector({ id, call, close }) {
  const [executed, setExecuted] = useState(/** @type {any} */ (null));
  useEffect(() => {
    setExecuted(null);
    get(`/runs/${encodeURIComponent(id)}/calls`).then((calls) => setExecuted(calls.findLast((/** @type {any} */ each) => each.callId === call.id)), () => setExecuted(null));
  }, [id, call.id, call.ended]);
  const { attempts = 0, refusals = 0, waited = 0 } = executed ?? {};
  return html`<section class="card"><div class="card-head"><code>${plain(call.name)}</code><button class="quiet" onClick=${close}>Close</button></div>
    <div class="card-body">
      <h3>Times</h3><p>${clock(call.started)}${call.ended ? ` to ${clock(call.ended)}, ${span(call.ended - call.started)}` : ""}</p>
      ${executed && html`<h3>Executions</h3><p>${[counted(attempts, "execution"), refusals && `${counted(refusals, "worker")} without the tool`, waited && `${span(waited)} of waiting for a person`].filter(Boolean).join(", ")}${executed.outcomeUnknown ? html`, <span class="held">the outcome is unknown</span>` : ""}</p>`}
      <h3>Arguments</h3><${Folded} text=${indented(call.arguments)} />
      ${call.decision?.arguments && html`<h3>Arguments that were approved</h3><${Folded} text=${JSON.stringify(call.decision.arguments, null, 1)} />`}
      ${call.result !== null && html`<h3>Result</h3><${Folded} text=${indented(call.result)} />`}
    </div></section>`;
}

const ROW = 28;
const ROWS = 24;

/** The events as a windowed table. @param {{events: any[]}} props */
function Events({ events }) {
  const [top, setTop] = useState(0);
  const [filter, setFilter] = useState("");
  const [open, setOpen] = useState(0);
  const types = [...new Set(events.map((each) => each.type))];
  const shown = filter ? events.filter((each) => each.type === filter) : events;
  const first = Math.max(0, Math.floor(top / ROW) - 4);
  const part = shown.slice(first, first + ROWS + 8);
  const chosen = shown.find((each) => each.seq === open);
  return html`<div>
    <select aria-label="Type of event" value=${filter} onChange=${(/** @type {any} */ event) => setFilter(event.currentTarget.value)}>
      <option value="">All types</option>${types.map((each) => html`<option>${each}</option>`)}</select>
    <div class="window" tabindex="0" role="table" aria-label="Events" aria-rowcount=${shown.length} onScroll=${(/** @type {any} */ event) => setTop(event.currentTarget.scrollTop)}>
      <div class="spacer" ref=${(/** @type {HTMLElement | null} */ place) => place && (place.style.height = `${first * ROW}px`)}></div>
      ${part.map((each) => html`<div role="row" key=${each.seq} class="event"><span role="cell">${each.seq}</span><span role="cell">${each.time ? clock(each.time) : ""}</span><span role="cell">${each.iteration}</span>
        <span role="cell"><button class="quiet" onClick=${() => setOpen(open === each.seq ? 0 : each.seq)}>${each.type}</button></span><span role="cell" class="arguments">${inLine(each.data).slice(0, 160)}</span></div>`)}
      <div class="spacer" ref=${(/** @type {HTMLElement | null} */ place) => place && (place.style.height = `${Math.max(0, shown.length - first - part.length) * ROW}px`)}></div>
    </div>
    ${chosen && html`<${Folded} text=${JSON.stringify(chosen, null, 1)} />`}
  </div>`;
}

/** @param {{messages: any[]}} props */
function Seen({ messages }) {
  if (!messages.length) return html`<p class="about">The conversation is recorded at the end of the first iteration.</p>`;
  return html`<ol class="seen">${messages.map((each) => html`<li><span class="about">${plain(each.role)}${each.metadata?.edited ? ", edited for this fork" : ""}</span>
    <${Folded} text=${textOf(each) || JSON.stringify(each.metadata.tool_calls ?? "", null, 1)} /></li>`)}</ol>`;
}

/** A link that others made is opened only where it leads to the web. @param {string | null | undefined} url */
const isWeb = (url) => /^https?:\/\//.test(url ?? "");

/** What is done with a run beside deciding. @param {{id: string, agent: string, run: import("../run_model.js").Run, setup: any}} props */
function More({ id, agent, run, setup }) {
  const [copied, setCopied] = useState("");
  const copy = (/** @type {string} */ name, /** @type {boolean} */ isBounded) => async () => {
    await navigator.clipboard.writeText(markdownOf(id, agent, run, isBounded));
    setCopied(name);
  };
  const outside = (/** @type {string | null | undefined} */ url, /** @type {string} */ name) => isWeb(url) && html`<a class="button" href=${url} target="_blank" rel="noopener noreferrer">${name}</a>`;
  return html`<details class="more"><summary class="button">More</summary><div class="menu">
    <${Act} act=${copy("whole", false)}>${copied === "whole" ? "Copied" : "Copy as Markdown"}<//>
    <${Act} act=${copy("bounded", true)}>${copied === "bounded" ? "Copied" : "Copy for an agent (20 KB)"}<//>
    ${outside(setup?.traceUrl, "Trace")}${outside(setup?.temporalUrl, "Temporal UI")}
    ${setup?.traceId && html`<span class="about">Trace <code>${setup.traceId}</code></span>`}</div></details>`;
}
