/** Fork a run before an iteration: what is copied, what is left out, what should change. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { freshKey, post } from "../api.js";
import { counted, inLine, plain } from "../format.js";
import { html } from "../html.js";
import { Act, Trouble } from "../parts/basics.js";
import { readRun } from "../run_model.js";
import { link, once } from "../state.js";

/** @param {{id: string, before: string}} props */
export function Fork({ id, before }) {
  const [run, setRun] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const [steer, setSteer] = useState("");
  const [model, setModel] = useState("");
  useEffect(() => {
    const load = () => readRun(id).then((found) => { setRun(found); setProblem(null); }, (error) => { setProblem(error); throw error; });
    return once(load);
  }, [id]);
  const at = Number(before) || 1;
  const [edits, setEdits] = useState(/** @type {Record<string, string>} */ ({}));
  const callsThat = (/** @type {(number: number) => boolean} */ fits) => run?.iterations.filter((/** @type {any} */ each) => fits(each.number)).flatMap((/** @type {any} */ each) => each.calls) ?? [];
  const kept = callsThat((number) => number < at);
  const results = Object.fromEntries(kept.filter((/** @type {any} */ call) => (edits[call.id] ?? call.result) !== call.result).map((/** @type {any} */ call) => [call.id, edits[call.id]]));
  const key = useMemo(freshKey, [at, steer, model, JSON.stringify(results)]);
  const start = async () => {
    const forked = await post(`/runs/${encodeURIComponent(id)}/fork`, { at, steer: steer.trim() || null, model: model.trim() || null, results }, { "Idempotency-Key": key });
    location.hash = link("run", forked.id);
  };
  const again = callsThat((number) => number >= at);
  const isThere = run?.iterations.some((/** @type {any} */ each) => each.number === at);
  return html`<main><p class="about"><a href=${link()}>Runs</a> › <a href=${link("run", id)}><code>${plain(id)}</code></a> › Fork</p><h1>Fork before iteration ${at}</h1>
    <${Trouble} error=${problem} />
    <p class="about">A new run begins with the conversation up to the line. A number moves the line. You may edit the results above it.</p>
    <div class="columns"><ol class="fork">${run?.iterations[0]?.said.map((/** @type {any} */ each) => html`<li><span></span><div>${plain(each.text).slice(0, 300)}</div><span class="about">Input</span></li>`)}
    ${run?.iterations.map((/** @type {any} */ each) => html`${each.number === at && html`<li class="begins">The fork begins here</li>`}<li class=${each.number < at ? "kept" : "left-out"}>
      <button aria-pressed=${each.number === at} onClick=${() => (location.hash = link("run", id, "fork", String(each.number)))}>${each.number}</button>
      <div>${plain(each.text).slice(0, 160)}${each.calls.map((/** @type {any} */ call) => html`<div class="line"><code>${plain(call.name)}</code> ${inLine(call.arguments).slice(0, 100)}</div>
        ${each.number < at && call.result !== null && html`<details class=${call.id in results ? "person" : "about"}><summary>${call.id in results ? "Result, edited" : "Result"}</summary>
          <textarea rows="3" aria-label=${`Result of ${plain(call.name)}`} value=${edits[call.id] ?? call.result} onInput=${(/** @type {any} */ event) => setEdits({ ...edits, [call.id]: event.currentTarget.value })}></textarea></details>`}`)}</div>
      <span class="about">${each.number < at ? "copied, not run again" : "left out of the fork"}</span></li>`)}</ol>
    <div>${run && !isThere && html`<p class="held">The run has ${counted(run.iterations.length, "iteration")}: choose one of them.</p>`}
    ${isThere && html`<label for="steer">What should change? (empty for nothing)</label>
    <textarea id="steer" rows="3" value=${steer} onInput=${(/** @type {any} */ event) => setSteer(event.currentTarget.value)}></textarea>
    <label for="fork-model">Model (empty for the same)</label>
    <input type="text" id="fork-model" placeholder="ID, or PROVIDER/ID" value=${model} onInput=${(/** @type {any} */ event) => setModel(event.currentTarget.value)} />
    <p class="note person">Tools after the fork really run.${again.length ? ` The original made ${counted(again.length, "call")} there: ${[...new Set(again.map((/** @type {any} */ call) => plain(call.name)))].join(", ")}.` : ""}</p>
    <${Act} kind="primary" act=${start}>Start fork<//> <a href=${link("run", id)}>Back to the run</a>`}</div></div>
  </main>`;
}
