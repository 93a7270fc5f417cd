/** Sessions: a list, and a field to begin one. */
import { useEffect, useState } from "preact/hooks";
import { freshKey, get, glance, post } from "../api.js";
import { moment, plain } from "../format.js";
import { html } from "../html.js";
import { Trouble } from "../parts/basics.js";
import { Composer } from "../parts/composer.js";
import { link, once, repeat } from "../state.js";

export function Sessions() {
  const [sessions, setSessions] = useState(/** @type {any[] | null} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [agents, setAgents] = useState(/** @type {any[]} */ ([]));
  useEffect(() => repeat(() => glance("/sessions", { limit: 200 }).then((found) => { setSessions(found); setProblem(null); }, setProblem)), []);
  useEffect(() => once(() => get("/agents").then(setAgents)), []);
  const begin = (/** @type {string} */ agent) => async (/** @type {string} */ text, /** @type {any[]} */ parts, /** @type {string} */ key) => {
    const taken = await post(`/sessions/${key}/messages`, { text, parts, agent, messageId: key });
    location.hash = link("session", taken.session);
  };
  return html`<main class="narrow"><h1>Sessions</h1><${Trouble} error=${problem} />
    ${agents.filter(talks).map((each) => html`<${Composer} key=${each.name} id=${`begin-${each.name}`} label=${`Begin a conversation with ${plain(each.name)}`} takesFiles=${true} send=${begin(each.name)} />`)}
    ${sessions?.length === 0 && html`<p class="about">No sessions yet.</p>`}
    <ul class="list">${sessions?.map((each) => html`<li key=${each.id}><a class="run" href=${link("session", each.id)}><span class="what"><span class="title"><code>${plain(each.id)}</code></span><span class="about">${plain(each.agent ?? "")}</span></span>
      <span class="when"><span>${each.closed ? "closed" : "open"}</span><span class="about">since ${each.started ? moment(Date.parse(each.started) / 1000) : ""}</span></span></a></li>`)}</ul></main>`;
}

/** Whether an agent needs no input but what is said. @param {any} agent */
const talks = (agent) => !agent.inputs.some((/** @type {any} */ each) => each.required && (each.default ?? null) === null);
