/** A run as Markdown, to hand on: whole, or bounded for an agent. */
import { indented } from "../format.js";
import { usageOf } from "../run_model.js";

/** What an agent is given, in characters. */
const MAX_CHARS = 20_000;

/** A fence longer than any in the text. @param {string} text @param {string} [language] */
function fenced(text, language = "") {
  const longest = Math.max(2, ...[...text.matchAll(/`{3,}/g)].map(([found]) => found.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${language}\n${text}\n${fence}`;
}

/** @param {string} text @param {number} most */
const cut = (text, most) => (text.length > most ? `${text.slice(0, most)}\n… ${(text.length - most).toLocaleString()} more characters` : text);

/** @param {import("../run_model.js").Iteration} each @param {number} most */
function iteration(each, most) {
  const calls = each.calls.map((call) => [`### Call \`${call.name}\`: ${call.state}`, fenced(cut(indented(call.arguments), most), "json"),
    call.decision ? `Decided by ${call.decision.by ?? "somebody"}: ${call.decision.approved ? "approved" : "denied"}${call.decision.reason ? `, ${call.decision.reason}` : ""}` : "",
    call.result === null ? "" : fenced(cut(call.result, most))].filter(Boolean).join("\n\n"));
  return [`## Iteration ${each.number}`, ...each.said.map((said) => cut(said.text, most).replace(/^/gm, "> ")), cut(each.text, most), ...each.notes.map((note) => `*${note.text}*`), ...calls].filter(Boolean).join("\n\n");
}

/**
 * The run as Markdown; bounded, the end and the newest and failed iterations come first.
 * @param {string} id @param {string} agent @param {import("../run_model.js").Run} run @param {boolean} isBounded
 */
export function markdownOf(id, agent, run, isBounded) {
  const sum = usageOf(run);
  const head = `# Run ${id}\n\nAgent ${agent || "unknown"}, ${run.end?.type ?? "under way"}, ${run.iterations.length} iterations, ${sum.input + sum.output} tokens${sum.cost === null ? "" : `, $${sum.cost.toFixed(4)}`}.`;
  const end = run.end ? `## ${run.end.type === "done" ? "Answer" : "Error"}\n\n${run.end.response ?? run.end.message ?? ""}` : "";
  if (!isBounded) return [head, ...run.iterations.map((each) => iteration(each, Infinity)), end].filter(Boolean).join("\n\n");
  const isFailed = (/** @type {import("../run_model.js").Iteration} */ each) => each.calls.some((call) => ["failed", "denied"].includes(call.state)) || each.notes.some((note) => note.kind === "error");
  const order = [...run.iterations].reverse().sort((one, two) => Number(isFailed(two)) - Number(isFailed(one)));
  const parts = [head, cut(end, MAX_CHARS / 4)].filter(Boolean);
  let left = MAX_CHARS - parts.join("\n\n").length - 100;
  let shown = 0;
  for (const each of order) {
    const text = iteration(each, 1500);
    if (text.length + 2 > left) break;
    parts.push(text);
    left -= text.length + 2;
    shown += 1;
  }
  if (shown < order.length) parts.push(`${order.length - shown} of ${order.length} iterations are left out.`);
  return parts.join("\n\n");
}
