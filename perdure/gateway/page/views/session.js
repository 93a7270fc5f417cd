/** A session as a conversation: its turns joined, what waits to be read, and a field to go on. */
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { follow, freshKey, get, post } from "../api.js";
import { counted, money, plain, span, tokens } from "../format.js";
import { html } from "../html.js";
import { Act, Folded, Markdown, State, Sure, Trouble } from "../parts/basics.js";
import { CallRow } from "../parts/call.js";
import { Composer } from "../parts/composer.js";
import { Decision, Unused } from "../parts/decision.js";
import { Held } from "../parts/held.js";
import { Media } from "../parts/media.js";
import { openingOf, saidOf, usageOf } from "../run_model.js";
import { announcement, isVisible, link, repeat } from "../state.js";
import { emptyTalk, hear, numberOf } from "../talk_model.js";

/** The turns that are read at first, and more with each request for earlier ones. */
const TURNS = 20;
/** The reader is at the end, so close to it. */
const END_PIXELS = 120;
const CHANGING = ["done", "failed", "cancelled", "permission_requested", "permission_completed", "held", "went_on", "messages_updated"];

/** The session's state, and its turns as their events arrive. @param {string} id */
function useSession(id) {
  const path = `/sessions/${encodeURIComponent(id)}`;
  const talk = useRef(emptyTalk());
  const [status, setStatus] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [refusal, setRefusal] = useState(/** @type {any} */ (null));
  const [drawn, draw] = useState(0);
  const [count, setCount] = useState(TURNS);
  const load = () => get(path).then((found) => { setStatus(found); setProblem(null); }, setProblem);
  const last = talk.current.turns.at(-1);
  const isWhole = status?.status === "ended" && (!status.turn || Boolean(last?.run.end && numberOf(last.id) === status.turn));
  useEffect(() => repeat(load), [id]);
  useEffect(() => {
    if (!isVisible.value || !status || isWhole) return undefined;
    const abort = new AbortController();
    let isPainting = false;
    const first = status.turn - count + 1;
    follow(`${path}/events`, talk.current.position || (first > 1 ? `${first}:0` : ""), (event) => {
      hear(talk.current, event);
      if (CHANGING.includes(event.type)) load();
      if (isPainting) return;
      isPainting = true;
      requestAnimationFrame(() => {
        isPainting = false;
        draw((number) => number + 1);
      });
    }, abort.signal, setRefusal);
    return () => abort.abort();
  }, [id, isVisible.value, status !== null, isWhole, count]);
  const isNew = Boolean(last && !last.run.hasBegun && status?.run_id === last.id);
  useEffect(() => {
    if (!isNew || !last) return;
    // No event has a turn's messages before its first reply.
    get(`/runs/${encodeURIComponent(last.id)}/messages`).then((found) => {
      last.run.early = openingOf(found).said.map((each) => saidOf(each, "input"));
      draw((number) => number + 1);
    }, () => undefined);
  }, [last?.id, isNew]);
  const earlier = () => {
    talk.current = emptyTalk();
    setCount(count + TURNS);
  };
  return { path, turns: talk.current.turns, status, problem: refusal ?? problem, load, drawn, earlier };
}

/** Stay at the end of the page while the reader is there. @param {unknown} changed */
function useEnd(changed) {
  const isThere = useRef(true);
  useEffect(() => {
    const look = () => (isThere.current = scrollY + innerHeight > document.documentElement.scrollHeight - END_PIXELS);
    addEventListener("scroll", look);
    return () => removeEventListener("scroll", look);
  }, []);
  useLayoutEffect(() => {
    if (isThere.current) scrollTo(0, document.documentElement.scrollHeight);
  }, [changed]);
}

/** What persons said in a turn. @param {import("../run_model.js").Run} run */
const saidIn = (run) => (run.hasBegun ? run.iterations.flatMap((each) => each.said) : run.early);

const oneLine = (/** @type {string} */ text) => text.replace(/\s+/g, " ").trim();

/** @param {{id: string}} props */
export function Session({ id }) {
  const { path, turns, status, problem, load, drawn, earlier } = useSession(id);
  const [sent, setSent] = useState(/** @type {{text: string, media: any[], known: number}[]} */ ([]));
  const [isOwn, setOwn] = useState(false);
  useEnd(`${drawn} ${sent.length} ${status?.queued}`);
  const state = status?.status === "running" && !status.run_id ? "waiting" : status?.status;
  const isRunning = Boolean(status?.run_id);
  useEffect(() => {
    if (state) announcement.value = `Session ${id}: ${isRunning ? "the agent works" : state}`;
  }, [state, isRunning]);
  if (problem?.status === 404) return html`<main class="narrow"><h1>No such session</h1><p>${plain(problem.message)}</p><p><a href=${link("sessions")}>All sessions</a></p></main>`;
  const all = turns.flatMap(({ run }) => saidIn(run));
  const timesSaid = (/** @type {string} */ text) => all.filter((each) => each.text === text).length;
  const queue = /** @type {string[]} */ (status?.queue ?? []);
  const unread = sent.filter((each) => timesSaid(each.text) <= each.known && !queue.some((text) => oneLine(each.text).startsWith(text.replace(/…$/, ""))));
  const send = async (/** @type {string} */ text, /** @type {any[]} */ parts, /** @type {string} */ key) => {
    const known = timesSaid(text);
    await post(`${path}/messages`, { text, parts, messageId: key, whileBusy: isOwn ? "queue" : null });
    setSent([...unread, { text, media: parts, known }]);
    load();
  };
  const before = turns[0]?.run.before.filter((each) => each.role !== "system") ?? [];
  const title = oneLine(all[0]?.text ?? "").slice(0, 120) || id;
  const waits = status?.pending_approvals ?? [];
  return html`<main class="narrow"><p class="about"><a href=${link("sessions")}>Sessions</a> › <code>${plain(id)}</code></p>
    <h1>${plain(title)}</h1>
    ${status && html`<p class="facts">${status.status === "ended" ? html`<${State} status="done" /> <span>${plain(status.reason)}</span>` : isRunning ? html`<${State} status=${status.held?.length ? "held" : waits.length ? "waiting" : "running"} words=${true} />` : "waits for your message"}
      <span>${counted(status.turn, "turn")}</span> <span>${tokens(status.usage?.total_tokens ?? 0)} tokens ${money(status.cost_usd)}</span></p>`}
    <${Trouble} error=${problem} />
    ${turns.length > 0 && numberOf(turns[0].id) > 1 && html`<p><button onClick=${earlier}>Show earlier turns one by one</button></p>`}
    ${before.length > 0 && html`<section class="before" aria-label="Before these turns">${before.map((each) => html`<${Spoken} message=${each} />`)}</section>`}
    ${turns.map((turn) => html`<${TurnPart} key=${turn.id} turn=${turn} cards=${waits} load=${load} />`)}
    ${waits.filter((/** @type {any} */ each) => each.run_id !== status.run_id).map((/** @type {any} */ each) => html`<${Decision} key=${each.run_id + each.call_id + each.digest} runId=${each.run_id} request=${each} onDone=${load} />`)}
    ${(status?.held ?? []).map((/** @type {any} */ each) => html`<${Held} key=${`${each.run_id} ${each.since}`} id=${each.run_id ?? status.run_id} held=${each} options=${{}} />`)}
    ${unread.map((each) => html`<div class="said user"><span class="about">You · not read yet</span><${Folded} text=${each.text} mono=${false} /><${Media} parts=${each.media} /></div>`)}
    ${queue.length > 0 && html`<section aria-label="Messages that wait"><h2 class="about">${counted(queue.length, "message")} queued, each for a turn of its own</h2>
      ${queue.map((text) => html`<div class="said user">${plain(text) || "A file"}</div>`)}</section>`}
    ${status && status.status !== "ended" && !status.is_closing && html`<${Composer} label="Say something" takesFiles=${true} send=${send}>
      ${isRunning && html`<label class="about"><input type="checkbox" checked=${isOwn} onChange=${(/** @type {any} */ event) => setOwn(event.currentTarget.checked)} /> As the next turn; else the agent reads it before its next model call</label>`}<//>`}
    ${status?.is_closing && html`<p class="note held">This session is closing: it takes no further message.</p>`}
    ${status && status.status !== "ended" && html`<p class="actions">
      ${isRunning && html`<${Act} kind="danger" act=${() => post(`/runs/${encodeURIComponent(status.run_id)}/cancel`, { reason: "" })}>Stop this turn<//>`}
      ${!status.is_closing && html`<${Sure} sentence="The session takes no further message." confirm="Close the session" act=${() => post(`${path}/close`).then(load)}>Close<//>`}</p>`}
  </main>`;
}

/** One turn: the person's words, the agent's, its calls. @param {{turn: import("../talk_model.js").Turn, cards: any[], load: () => void}} props */
function TurnPart({ turn, cards, load }) {
  const { id, run } = turn;
  const [isEditing, edit] = useState(false);
  const [picked, pick] = useState("");
  const opened = run.hasBegun ? (run.iterations[0]?.said ?? []) : run.early;
  const opening = opened.length > 0 && { text: opened.map((each) => each.text).join("\n\n"), media: opened.flatMap((each) => each.media ?? []) };
  const usage = usageOf(run);
  const answer = run.end?.type === "done" ? run.iterations.at(-1) : null;
  return html`<section class="turn" aria-label=${`Turn ${numberOf(id)}`}>
    ${run.iterations.map((each) => html`<div key=${each.number}>
      ${(run.hasBegun ? each.said : each === run.iterations[0] ? run.early : []).map((said) => html`<div class=${`said ${said.role === "input" ? "user" : said.role}`}>${said.role !== "input" && html`<span class="about">read before iteration ${each.number}</span>`}
        <${Folded} text=${said.text} mono=${false} /><${Media} parts=${said.media} /></div>`)}
      ${each === run.iterations[0] && opening && run.end && (isEditing ? html`<${Edit} id=${id} said=${opening} close=${() => edit(false)} />`
        : html`<p class="about"><button class="quiet" onClick=${() => edit(true)}>Edit and resend</button></p>`)}
      ${each.thinking && html`<details><summary class="about">Thinking</summary><${Folded} text=${each.thinking} mono=${false} /></details>`}
      ${each !== answer && each.text && html`<${Markdown} text=${each.text} />`}
      ${each.notes.map((note) => html`<p class=${`line ${note.kind === "error" ? "failed" : "held"}`}>${plain(note.text)}</p>`)}
      ${each.calls.map((call) => html`<${CallRow} key=${call.id} call=${call} isPicked=${picked === call.id} onPick=${() => pick(picked === call.id ? "" : call.id)} />
        ${picked === call.id && html`<div class="line"><${Folded} text=${call.arguments} />${call.result !== null && html`<${Folded} text=${call.result} />`}</div>`}
        ${call.state !== "waiting" && html`<${Unused} runId=${id} callId=${call.id} />`}
        ${call.state === "waiting" && !run.end && html`<${Decision} key=${`${call.id}-card`} runId=${id} request=${{ ...(cards.find((card) => card.call_id === call.id) ?? {}), ...call.request, call_id: call.id, votes: call.votes }} words=${each.text} onDone=${load} />`}`)}
    </div>`)}
    ${run.end?.type === "done" && html`<${Markdown} text=${run.end.response} /><${Media} parts=${run.end.media} />`}
    ${run.end && run.end.type !== "done" && html`<p class=${run.end.type}>${run.end.type === "failed" ? "Failed" : "Stopped"} ${plain(run.end.message ?? "")}</p>`}
    <p class="about turn-foot"><a href=${link("run", id)}>Turn ${numberOf(id)}</a>${run.end ? ` · ${span(run.last - run.first)}` : ""} · ${tokens(usage.input + usage.output)} tokens ${money(usage.cost)}</p>
  </section>`;
}

/** Another message in place of those that opened a turn, in a session of its own. @param {{id: string, said: {text: string, media: any[]}, close: () => void}} props */
function Edit({ id, said, close }) {
  const [text, setText] = useState(said.text);
  const key = useMemo(freshKey, [text]);
  const send = async () => {
    const taken = await post(`/sessions/${key}/messages`, { text, parts: said.media, replaces: id, messageId: key });
    location.hash = link("session", taken.session);
  };
  return html`<div class="card"><div class="card-body"><label for="edited">Say this in its place</label>
      <textarea id="edited" rows="3" value=${text} onInput=${(/** @type {any} */ event) => setText(event.currentTarget.value)}></textarea>
      <p class="about">This begins another session with all that was said before. This one stays as it is. Tools that the agent calls there really run.</p></div>
    <div class="card-foot"><${Act} kind="primary" disabled=${!text.trim() && !said.media.length} act=${send}>Send in a new session<//><button onClick=${close}>Back</button></div></div>`;
}

/** A message before the turns that are shown. @param {{message: any}} props */
function Spoken({ message }) {
  const calls = message.metadata?.tool_calls ?? [];
  const { text, media } = saidOf(message, message.role);
  if (message.role === "tool") return html`<details class="line"><summary>result</summary><${Folded} text=${text} /><${Media} parts=${media} /></details>`;
  return html`<div class=${`said ${message.role}`}>
    ${message.role === "assistant" ? html`<${Markdown} text=${text} />` : html`<${Folded} text=${text} mono=${false} />`}<${Media} parts=${media} />
    ${calls.map((/** @type {any} */ call) => html`<div class="line"><code>${plain(call.function?.name)}</code></div>`)}</div>`;
}
