/** Sessions: a list, and each as a conversation of its turns. */
import { useEffect, useRef, useState } from "preact/hooks";
import { follow, get, glance, post } from "../api.js";
import { moment, plain } from "../format.js";
import { html } from "../html.js";
import { Act, Folded, Markdown, Sure, Trouble } from "../parts/basics.js";
import { Composer } from "../parts/composer.js";
import { Decision } from "../parts/decision.js";
import { textOf } from "../run_model.js";
import { isVisible, link, repeat } from "../state.js";

export function Sessions() {
  const [sessions, setSessions] = useState(/** @type {any[] | null} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [agents, setAgents] = useState(/** @type {any[]} */ ([]));
  useEffect(() => repeat(() => glance("/sessions", { limit: 200 }).then(setSessions, setProblem)), []);
  useEffect(() => {
    get("/agents").then(setAgents, () => undefined);
  }, []);
  const begin = (/** @type {string} */ agent) => async (/** @type {string} */ text) => {
    const taken = await post(`/sessions/${crypto.randomUUID()}/messages`, { text, agent, messageId: crypto.randomUUID() });
    location.hash = link("session", taken.session);
  };
  return html`<main class="narrow"><h1>Sessions</h1><${Trouble} error=${problem} />
    ${agents.filter(talks).map((each) => html`<${Composer} key=${each.name} id=${`begin-${each.name}`} label=${`Begin a conversation with ${each.name}`} send=${begin(each.name)} />`)}
    ${sessions?.length === 0 && html`<p class="about">No sessions yet.</p>`}
    <ul class="list">${sessions?.map((each) => html`<li key=${each.id}><a class="run" href=${link("session", each.id)}><span class="what"><span class="title"><code>${plain(each.id)}</code></span><span class="about">${plain(each.agent ?? "")}</span></span>
      <span class="when"><span>${each.closed ? "closed" : "open"}</span><span class="about">since ${each.started ? moment(Date.parse(each.started) / 1000) : ""}</span></span></a></li>`)}</ul></main>`;
}

/** Whether an agent needs no input but what is said. @param {any} agent */
const talks = (agent) => !agent.inputs.some((/** @type {any} */ each) => each.required && (each.default ?? null) === null);

/** @param {{id: string}} props */
export function Session({ id }) {
  const path = `/sessions/${encodeURIComponent(id)}`;
  const [messages, setMessages] = useState(/** @type {any[]} */ ([]));
  const [status, setStatus] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [live, setLive] = useState("");
  const [sent, setSent] = useState(/** @type {string[]} */ ([]));
  const position = useRef("");
  const load = async () => {
    setStatus(await get(path));
    const found = await get(`${path}/messages`);
    setMessages(found);
    setSent((texts) => texts.filter((text) => !found.some((/** @type {any} */ each) => each.role === "user" && textOf(each) === text)));
  };
  useEffect(() => repeat(load), [id]);
  useEffect(() => {
    if (!isVisible.value) return undefined;
    const abort = new AbortController();
    let text = "";
    follow(`${path}/events`, position.current, (event) => {
      position.current = event.position;
      if (event.type === "llm_start" || event.type === "text_reset") text = "";
      else if (event.type === "token") text += event.data.token;
      else if (["done", "failed", "cancelled", "llm_complete"].includes(event.type)) {
        if (event.type !== "llm_complete") text = "";
        load().catch(() => undefined);
      }
      setLive(text);
    }, abort.signal, setProblem);
    return () => abort.abort();
  }, [id, isVisible.value]);
  const send = async (/** @type {string} */ text) => {
    await post(`${path}/messages`, { text, messageId: crypto.randomUUID() });
    setSent((texts) => [...texts, text]);
  };
  const isOpen = status && status.status !== "ended";
  return html`<main class="narrow"><p class="about"><a href=${link("sessions")}>Sessions</a> › <code>${plain(id)}</code></p>
    <${Trouble} error=${problem} />
    <div class="chat">${messages.filter((each) => each.role !== "system").map((each) => html`<${Spoken} message=${each} />`)}
      ${sent.map((text) => html`<div class="said user"><span class="about">queued</span><${Folded} text=${text} mono=${false} /></div>`)}
      ${live && !messages.some((each) => each.role === "assistant" && textOf(each) === live) && html`<div class="said assistant"><${Markdown} text=${live} /></div>`}</div>
    ${status?.pending_approvals?.map((/** @type {any} */ each) => html`<${Decision} key=${each.run_id + each.call_id + each.digest} runId=${each.run_id} request=${each} onDone=${load} />`)}
    ${status?.run_id && html`<p class="about">This turn: <a href=${link("run", status.run_id)}>${plain(status.run_id)}</a></p>`}
    ${isOpen && html`<${Composer} label="Say something" send=${send} /><p><${Sure} sentence="The session takes no further message." confirm="Close the session" act=${() => post(`${path}/close`)}>Close<//>
      <${Act} act=${() => post(`${path}/cancel`, {})}>Stop this turn<//></p>`}
  </main>`;
}

/** @param {{message: any}} props */
function Spoken({ message }) {
  const calls = message.metadata.tool_calls ?? [];
  if (message.role === "tool") return html`<details class="line"><summary>${plain(message.metadata.name ?? "result")}</summary><${Folded} text=${textOf(message)} /></details>`;
  return html`<div class=${`said ${message.role}`}>
    ${message.role === "assistant" ? html`<${Markdown} text=${textOf(message)} />` : html`<${Folded} text=${textOf(message)} mono=${false} />`}
    ${calls.map((/** @type {any} */ call) => html`<div class="line"><code>${plain(call.name ?? call.function?.name)}</code></div>`)}</div>`;
}
