/** Being told of calls that wait: in the title, in the icon, and by notifications if the reader wants them. */
import { effect, signal } from "@preact/signals";
import { counted, plain, title } from "../format.js";
import { html } from "../html.js";
import { needsToken, token } from "../api.js";
import { approvals, isOffline, isVisible, link } from "../state.js";
import { isPushed, subscribe } from "./push.js";

const permission = signal("Notification" in globalThis ? Notification.permission : "denied");
/** Whether the reader has asked for notifications in this tab, and the browser refuses them. */
const isRefused = signal(false);
/** The calls that are known; null before the first look, of which nobody is told. @type {Set<string> | null} */
let known = null;

/** Whether a hidden tab looks for new calls, too. */
export const isWanted = () => permission.value === "granted";

effect(() => {
  const waits = approvals.value;
  document.title = waits.length ? `(${waits.length}) perdure` : "perdure";
  const icon = /** @type {HTMLLinkElement | null} */ (document.querySelector('link[rel="icon"]'));
  const href = waits.length ? "page/icon-waiting.svg" : "page/icon.svg";
  if (icon && icon.getAttribute("href") !== href) icon.setAttribute("href", href);
});

effect(() => {
  if (!isWanted() || needsToken.value || isOffline.value || !isVisible.value || token.value === undefined) return;
  subscribe().catch(() => {}); // The tab itself tells of calls, where the browser or the gateway pushes nothing.
});

/** Tell of the calls that are new. To be called after each look. */
export function tell() {
  const now = new Map(approvals.value.map((each) => [`${each.runId} ${each.call.call_id} ${each.call.digest}`, each]));
  const fresh = known ? [...now].filter(([key]) => !known?.has(key)) : [];
  known = new Set(now.keys());
  if (!isWanted() || isPushed || !document.hidden) return;
  for (const [key, { runId, agent, call }] of fresh) {
    const words = call.kind === "question" ? "The agent asks a question" : `${title(call.name)}?`;
    try {
      const shown = new Notification(`${counted(now.size, "call")} waiting`, { body: `${words} ${plain(agent ?? "")} · ${plain(runId)}`, tag: key, icon: "page/icon.svg" });
      shown.onclick = () => {
        window.focus();
        location.hash = link("run", runId, "decide", call.call_id);
      };
    } catch {
      permission.value = "denied"; // Android's browsers show notifications of service workers alone.
    }
  }
}

async function ask() {
  permission.value = await Notification.requestPermission();
  isRefused.value = permission.value === "denied";
}

export function NotifyButton() {
  if (isRefused.value) return html`<span class="about" role="status">The browser blocks notifications of this page</span>`;
  if (permission.value !== "default") return null;
  return html`<button class="quiet" onClick=${ask}>Notify me</button>`;
}
