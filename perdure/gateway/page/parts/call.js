/** A tool call in the conversation: name, arguments, result, decision. */
import { inLine, moment, plain, span } from "../format.js";
import { html } from "../html.js";
import { now } from "../state.js";
import { Called } from "./called.js";
import { Media } from "./media.js";

const GLYPHS = /** @type {Record<string, [string, string, string]>} */ ({
  done: ["✓", "done", "done"], working: ["◔", "working", "runs"], waiting: ["●", "person", "waits for a person"],
  denied: ["✕", "failed", "denied"], failed: ["?", "failed", "outcome unknown"], cancelled: ["–", "cancelled", "cancelled"],
});

/** Who has decided: a name that no gateway has signed is a claim. @param {any} decision */
export const byOf = (decision) => (decision.vouched?.length ? plain(decision.by) : `${plain(decision.by)} (an unverified name)`);

/** @param {{call: import("../run_model.js").Call, isPicked: boolean, onPick: () => void, hasTray?: boolean}} props */
export function CallRow({ call, isPicked, onPick, hasTray = false }) {
  const [glyph, colour, words] = GLYPHS[call.state];
  const { decision, progress } = call;
  const changed = decision?.arguments ? inLine(decision.arguments) : "";
  const took = (call.ended || now.value) - (decision?.at ?? call.started);
  return html`<div class=${`call ${isPicked ? "picked" : ""}`} id=${`call-${call.id}`}>
    <button class="row" onClick=${onPick} aria-pressed=${isPicked}>
      <span class=${`state ${colour}`}><span aria-hidden="true">${glyph}</span><span class="unseen">${words}</span></span>
      <code>${plain(call.name)}</code>
      <span class="arguments">${changed ? html`<del>${inLine(call.arguments)}</del> ${changed}` : inLine(call.arguments)}</span>
      <span class="time">${call.state === "waiting" ? "" : span(took)}</span>
    </button>
    ${progress && html`<div class="line working">${plain(progress.text)} ${progress.total ? `${progress.done} of ${progress.total}` : progress.done || ""}</div>`}
    ${decision && html`<div class="line">${decision.answer !== null && decision.answer !== undefined ? "answered" : decision.approved ? "approved" : "denied"}
      ${decision.by ? ` by ${byOf(decision)}` : ""} at ${moment(decision.at)}
      ${call.request ? ` after ${span(decision.at - call.request.since)}` : ""}${decision.reason ? `: “${plain(decision.reason)}”` : ""}</div>`}
    ${!hasTray && call.children.length > 0 && html`<${Called} ids=${call.children} />`}
    ${call.result !== null && html`<div class="line result">${plain(call.result).slice(0, 200)}</div>`}
    <${Media} parts=${call.media} />
  </div>`;
}
