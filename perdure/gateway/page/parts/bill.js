/** The usage of a run, by model, against its limits; and its setup. */
import { isLive } from "../api.js";
import { counted, money, plain, span, tokens } from "../format.js";
import { html } from "../html.js";
import { link } from "../state.js";
import { Folded } from "./basics.js";

/** @param {{id: string, run: import("../run_model.js").Run, setup: any, limits: Record<string, any>, state: any, seconds: number}} props */
export function Bill({ id, run, setup, limits, state, seconds }) {
  const models = new Map();
  for (const { usage, cost, model } of run.iterations) {
    if (!usage) continue;
    const sum = models.get(model) ?? { calls: 0, input: 0, cached: 0, output: 0, cost: null };
    models.set(model, { calls: sum.calls + 1, input: sum.input + Number(usage.input_tokens), cached: sum.cached + Number(usage.cached_input_tokens), output: sum.output + Number(usage.output_tokens), cost: cost === null || cost === undefined ? sum.cost : (sum.cost ?? 0) + cost });
  }
  const rows = [...models];
  const all = (/** @type {string} */ name) => rows.reduce((sum, [, each]) => sum + (each[name] ?? 0), 0);
  const calls = run.iterations.reduce((sum, each) => sum + each.calls.length, 0);
  const cost = Math.max(all("cost"), state?.cost_usd ?? 0);
  /** @type {[string, string, number, (value: number) => string][]} */
  const used = [["max_cost_usd", "Cost", cost, (value) => money(value)], ["max_total_tokens", "Tokens", Math.max(all("input") + all("output"), Number(state?.usage?.total_tokens ?? 0)), tokens],
    ["max_iterations", "Iterations", run.iterations.filter((/** @type {any} */ each) => each.started).length, String], ["max_tool_calls", "Tool calls", calls, String], ["max_seconds", "Time", seconds, span]];
  const bounded = used.filter(([name]) => limits[name]);
  return html`<section class="card"><div class="card-head"><strong>Usage and cost</strong> <span class="about">${run.end ? "" : "so far"}</span></div>
    <div class="card-body">
      ${bounded.map(([name, label, value, shown]) => html`<div class="limit"><span>${label}</span><meter aria-label=${`${label} of its limit`} min="0" max=${limits[name]} high=${limits[name] * 0.9} value=${Math.min(value, limits[name])}></meter><span>${shown(value) || "0"} of ${shown(limits[name])}</span></div>`)}
      ${rows.length > 0 && html`<table><thead><tr><td></td><th>in</th><th>cached</th><th>out</th><th>cost</th></tr></thead>
        <tbody>${rows.map(([model, each]) => html`<tr><td>${plain(model) || counted(each.calls, "model call")}<div class="about">${model ? counted(each.calls, "call") : ""}</div></td><td>${each.input.toLocaleString()}</td><td>${each.cached.toLocaleString()}</td><td>${each.output.toLocaleString()}</td><td>${money(each.cost) || "unknown"}</td></tr>`)}</tbody></table>
        <p class="about">${Math.round((100 * all("cached")) / Math.max(all("input"), 1))} % of the input came from a cache.${state?.unpriced_calls ? ` ${counted(state.unpriced_calls, "call")} without a known price.` : ""}${cost > all("cost") + 1e-9 ? ` With called agents: ${money(cost)}.` : ""}</p>`}
    </div></section>
    ${setup && html`<section class="card"><div class="card-head"><strong>Started with</strong></div><div class="card-body">
      <p><code>${plain(run.model || setup.model || "no model")}</code></p>
      ${setup.calledBy && html`<p>Called by ${isLive ? html`<a href=${link("run", setup.calledBy)}>${plain(setup.calledBy)}</a>` : html`<code>${plain(setup.calledBy)}</code>`}</p>`}
      ${setup.forkOf && html`<p>Fork of <a href=${link("run", setup.forkOf.run)}>${plain(setup.forkOf.run)}</a> before iteration ${setup.forkOf.at}, <a href=${link("run", id, "compare", setup.forkOf.run)}>compare</a></p>`}
      ${setup.forks.map((/** @type {string} */ each) => html`<p>Fork: <a href=${link("run", each)}>${plain(each)}</a>, <a href=${link("run", each, "compare", id)}>compare</a></p>`)}
      ${isLive && html`<p><a href=${link("run", id, "compare")}>Compare with another run…</a></p>`}
      ${Object.keys(setup.inputs).length > 0 && html`<${Folded} text=${JSON.stringify(setup.inputs, null, 1)} />`}</div></section>`}`;
}
