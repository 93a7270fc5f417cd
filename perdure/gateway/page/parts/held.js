/** A held run: why, and the form that lets it go on, with other limits or another model. */
import { useState } from "preact/hooks";
import { post } from "../api.js";
import { moment, plain, title } from "../format.js";
import { html } from "../html.js";
import { link } from "../state.js";
import { Act } from "./basics.js";

const REASONS = /** @type {Record<string, string>} */ ({
  rate_limit: "The provider limits the rate", credentials: "The provider refuses the credentials",
  server: "The provider fails", context: "The conversation does not fit into the model's context",
  tool: "A tool is not available", budget: "A limit is reached", paused: "Paused",
});
/** The limits that a run may go on with. @type {[string, string][]} */
const LIMITS = [["max_iterations", "Iterations"], ["max_total_tokens", "Tokens"], ["max_tool_calls", "Tool calls"], ["max_seconds", "Seconds"], ["max_cost_usd", "Cost in US dollars"]];

/** @param {{id: string, held: any, options: Record<string, any>}} props
 *  `held`: `reason`, `why`, `option`, `since`, and `run_id` for a called run; `options`: the run's present limits. */
export function Held({ id, held, options }) {
  const run = held.run_id ?? id;
  const [limits, setLimits] = useState(/** @type {Record<string, string>} */ ({}));
  const [model, setModel] = useState("");
  const [wrong, setWrong] = useState("");
  const goOn = async () => {
    const given = Object.entries(limits).filter(([, text]) => text.trim());
    const bad = given.find(([, text]) => !(Number(text) > 0));
    const missing = held.option && !limits[held.option]?.trim();
    setWrong(bad ? `${bad[1]}: expected a number above 0.` : missing ? "Raise the limit that is reached." : "");
    if (bad || missing) return;
    await post(`/runs/${encodeURIComponent(run)}/go-on`, { options: Object.fromEntries(given.map(([name, text]) => [name, Number(text)])), model: model.trim() || null });
  };
  const limit = (/** @type {[string, string]} */ [name, label]) => html`<div class="field"><label for=${`limit-${name}`}>${label}</label>
    <div><input type="text" inputmode="decimal" id=${`limit-${name}`} aria-describedby=${`now-${name}`} value=${limits[name] ?? ""} onInput=${(/** @type {any} */ event) => setLimits({ ...limits, [name]: event.currentTarget.value })} />
    <div id=${`now-${name}`} class="about">${held.run_id ? "" : options[name] === null || options[name] === undefined ? "no limit now" : `${options[name].toLocaleString()} now`}</div></div></div>`;
  const reached = LIMITS.filter(([name]) => name === held.option);
  return html`<section class="card held-card" aria-label="The run is held"><div class="card-head"><span><span aria-hidden="true">◌</span> <strong>Held</strong> since ${moment(held.since)}. Nothing is lost.</span></div>
    <div class="card-body"><h2>${REASONS[held.reason] ?? title(held.reason)}</h2><p>${plain(held.why)}</p>
      ${held.run_id && html`<p>In the called run <a href=${link("run", held.run_id)}>${plain(held.run_id)}</a>.</p>`}
      ${reached.map(limit)}
      <details><summary>Other limits or another model</summary>
        ${LIMITS.filter((each) => !reached.includes(each)).map(limit)}
        <div class="field"><label for="other-model">Model</label><input type="text" id="other-model" placeholder="ID, or PROVIDER/ID" value=${model} onInput=${(/** @type {any} */ event) => setModel(event.currentTarget.value)} /></div>
      </details>
      ${wrong && html`<p class="problem" role="alert">${wrong}</p>`}</div>
    <div class="card-foot"><${Act} id="go-on" kind="primary" act=${goOn}>Go on<//> <span class="about">It repeats nothing, and tries the step again at which it stopped.</span></div></section>`;
}
