/** Start a run: a form made of the agent's inputs. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { freshKey, get, post } from "../api.js";
import { plain, title } from "../format.js";
import { html } from "../html.js";
import { Act, Trouble } from "../parts/basics.js";
import { Field, read, schemaOf, written } from "../parts/form.js";
import { link, once } from "../state.js";

/** @param {{name?: string}} props */
export function Start({ name = "" }) {
  const [agents, setAgents] = useState(/** @type {any[] | null} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  useEffect(() => once(() => get("/agents").then((found) => { setAgents(found); setProblem(null); }, (error) => { setProblem(error); throw error; })), []);
  const agent = agents?.find((each) => each.name === (name || agents[0]?.name));
  return html`<main class="narrow"><h1>Start a run</h1><${Trouble} error=${problem} />
    <div class="tabs">${agents?.map((each) => html`<a aria-current=${each === agent ? "page" : undefined} href=${link("start", each.name)}>${plain(each.name)}</a>`)}</div>
    ${agents && !agent && html`<p>This gateway does not offer ${plain(name)}.</p>`}
    ${agent && html`<${Form} key=${agent.name} agent=${agent} />`}
  </main>`;
}

/** Keep the focus while a button is pressed: a sentence that the field left shows would move the button away from the pointer. @param {Event} event */
const stay = (event) => event.preventDefault();

/** @param {{agent: any}} props */
function Form({ agent }) {
  const schemas = Object.fromEntries(agent.inputs.map((/** @type {any} */ each) => [each.name, schemaOf(each)]));
  const required = new Set(agent.inputs.filter((/** @type {any} */ each) => each.required).map((/** @type {any} */ each) => each.name));
  const [texts, setTexts] = useState(() => /** @type {Record<string, string>} */ (Object.fromEntries(agent.inputs.map((/** @type {any} */ each) => [each.name, written(schemas[each.name], each.default)]))));
  const [left, setLeft] = useState(/** @type {Record<string, boolean>} */ ({}));
  const key = useMemo(freshKey, [texts]);
  /** @type {Record<string, unknown>} */
  const inputs = {};
  const wrong = /** @type {Record<string, string>} */ ({});
  for (const [name, schema] of Object.entries(schemas)) {
    const { value, wrong: text } = read(schema, texts[name], required.has(name));
    if (text) wrong[name] = text;
    else if (value !== undefined) inputs[name] = value;
  }
  const start = async () => {
    const first = Object.keys(wrong)[0];
    if (first) {
      setLeft(Object.fromEntries(Object.keys(wrong).map((name) => [name, true])));
      document.getElementById(`field-${first}`)?.focus();
      return;
    }
    const started = await post("/runs", { agent: agent.name, inputs }, { "Idempotency-Key": key });
    location.hash = link("run", started.id);
  };
  return html`${agent.description && html`<div class="quoted"><blockquote>${plain(agent.description)}</blockquote></div>`}
    ${agent.inputs.map((/** @type {any} */ each) => html`<${Field} key=${each.name} name=${each.name} schema=${schemas[each.name]} text=${texts[each.name]} isRequired=${required.has(each.name)}
      wrong=${left[each.name] ? wrong[each.name] : ""} onLeave=${() => setLeft({ ...left, [each.name]: true })}
      onText=${(/** @type {string} */ text) => setTexts({ ...texts, [each.name]: text })} />`)}
    <p onMouseDown=${stay}><${Act} id="start" kind="primary" act=${start}>Start ${title(agent.name)}<//></p>
    <details><summary>Request as JSON</summary><pre tabindex="0">${plain(JSON.stringify({ agent: agent.name, inputs }, null, 1))}</pre></details>`;
}
