/** The runs that a call has started: a row of each, which opens in place; a tray where they are many. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { freshKey, glance, isLive, post } from "../api.js";
import { counted, inLine, money, plain } from "../format.js";
import { html } from "../html.js";
import { readRun } from "../run_model.js";
import { approvals, link } from "../state.js";
import { Act, Folded, Markdown, State, Sure } from "./basics.js";
import { Unused } from "./decision.js";
import { EVERY_MS, useWhileInView } from "./in_view.js";
import { lineOf } from "./last_line.js";

/** More called runs than these of one iteration share a tray. */
export const FEW = 3;

/** @param {{ids: string[]}} props */
export function Called({ ids }) {
  const rows = ids.map((id) => html`<${CalledRun} key=${id} id=${id} />`);
  if (ids.length <= FEW) return rows;
  return html`<section class="tray" aria-label=${counted(ids.length, "called agent")} tabindex="0"><p class="about">${counted(ids.length, "called agent")}</p>${rows}</section>`;
}

/** @param {{id: string}} props */
function CalledRun({ id }) {
  const [view, setView] = useState(/** @type {any} */ (null));
  const [isOpen, open] = useState(false);
  const [text, setText] = useState(/** @type {string | null} */ (null));
  const key = useMemo(freshKey, [text]);
  const path = `/runs/${encodeURIComponent(id)}`;
  const place = useWhileInView(async () => {
    const found = await glance(path).catch(() => null);
    if (found?.closed) setView({ ...found, result: await glance(`${path}/result`).catch(() => null) });
    else if (found) setView(found);
    return !found?.closed;
  }, id);
  const last = view && lineOf(view, view.result);
  const waits = approvals.value.filter((each) => each.runId === id);
  return html`<div class="called" ref=${place}>
    <div class="called-row">${view ? html`<${State} status=${view.status} />` : ""}
      <span class="what"><a href=${link("run", id)}>${plain(view?.agent ?? id)}</a><span class=${`last ${last?.colour ?? ""}`}>${plain(last?.text ?? "").slice(0, 160)}</span></span>
      <span class="about">${money(last?.cost)}</span>
      ${waits.map((each) => html`<a class="button" href=${link("run", id, "decide", each.call.call_id)}>Review</a>`)}
      <button class="quiet" aria-expanded=${isOpen} onClick=${() => open(!isOpen)}>${isOpen ? "Fold" : "Open here"}</button>
      ${isLive && view && !view.closed && html`<button class="quiet" onClick=${() => setText(text === null ? "" : null)}>Steer</button>
        <${Sure} kind="quiet" sentence="Its caller goes on without it." confirm="Cancel this agent" act=${() => post(`${path}/cancel`, { reason: "" })}>Cancel<//>`}</div>
    <${Unused} runId=${id} />
    ${text !== null && html`<div class="called-row"><textarea aria-label=${`Tell ${plain(view?.agent ?? id)} something`} rows="2" value=${text} onInput=${(/** @type {any} */ event) => setText(event.currentTarget.value)}></textarea>
      <${Act} disabled=${!text.trim()} act=${async () => { await post(`${path}/steer`, { text, messageId: key }); setText(null); }}>Send<//></div>`}
    ${isOpen && html`<${Nested} id=${id} closed=${view?.closed} />`}
  </div>`;
}

/** A called run's conversation, one level deep. @param {{id: string, closed: string | null}} props */
function Nested({ id, closed }) {
  const [run, setRun] = useState(/** @type {any} */ (null));
  useEffect(() => {
    const load = () => readRun(id).then(setRun, () => undefined);
    load();
    if (closed) return undefined;
    const timer = setInterval(load, EVERY_MS);
    return () => clearInterval(timer);
  }, [id, closed]);
  if (!run) return html`<p class="about">Loading…</p>`;
  return html`<div class="nested">${run.iterations.map((/** @type {any} */ each) => html`<div><span class="about">Iteration ${each.number}</span>
      ${each.text && html`<${Markdown} text=${each.text} />`}
      ${each.calls.map((/** @type {any} */ call) => html`<details class="line"><summary><code>${plain(call.name)}</code> ${inLine(call.arguments).slice(0, 120)}</summary><${Folded} text=${call.result ?? "no result yet"} />
        ${call.children.map((/** @type {string} */ child) => html`<p>called <a href=${link("run", child)}>${plain(child)}</a></p>`)}</details>`)}</div>`)}
    ${run.end?.message && html`<p class="failed">${plain(run.end.message)}</p>`}</div>`;
}
