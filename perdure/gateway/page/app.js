/** The page: its bar, its views by address, its keys. */
import { signal } from "@preact/signals";
import { render } from "preact";
import { useEffect } from "preact/hooks";
import { needsToken, offlineSince, serverTrouble, setToken, token } from "./api.js";
import { clock, plain } from "./format.js";
import { html } from "./html.js";
import { isWanted, NotifyButton, tell } from "./parts/notify.js";
import { unsubscribe } from "./parts/push.js";
import { SignIn, finishSignIn } from "./parts/sign_in.js";
import { address, announcement, approvals, isOffline, link, loadApprovals, me, repeat } from "./state.js";
import { Compare } from "./views/compare.js";
import { Fork } from "./views/fork.js";
import { Operate } from "./views/operate.js";
import { Run } from "./views/run.js";
import { Runs } from "./views/runs.js";
import { Session } from "./views/session.js";
import { Sessions } from "./views/sessions.js";
import { Start } from "./views/start.js";

function View() {
  const [room = "", id = "", part = "", more = ""] = address.value.path;
  if (room === "run" && part === "fork") return html`<${Fork} key=${id} id=${id} before=${more} />`;
  if (room === "run" && part === "compare") return html`<${Compare} key=${id + more} id=${id} other=${more} />`;
  if (room === "run") return html`<${Run} key=${id} id=${id} deciding=${part === "decide" ? more : ""} />`;
  if (room === "start") return html`<${Start} name=${id} />`;
  if (room === "operate") return html`<${Operate} />`;
  if (room === "sessions") return html`<${Sessions} />`;
  if (room === "session") return html`<${Session} key=${id} id=${id} />`;
  if (!room) return html`<${Runs} />`;
  return html`<main class="narrow"><h1>No such view</h1><p><code>#/${plain(address.value.path.join("/"))}</code> is not an address of this page. <a href=${link()}>All runs</a></p></main>`;
}

function Bar() {
  const room = address.value.path[0] ?? "";
  const waits = approvals.value;
  const isAway = isOffline.value || serverTrouble.value;
  useEffect(() => repeat(() => loadApprovals().then(tell), undefined, isWanted), []);
  const place = (/** @type {string} */ name, /** @type {string} */ href, /** @type {string[]} */ rooms) =>
    html`<a href=${href} aria-current=${rooms.includes(room) ? "page" : undefined}>${name}</a>`;
  return html`<header class="bar"><a class="brand" href=${link()}><img src="page/icon.svg" alt="" width="18" height="18" /> perdure</a>
    <nav>${place("Runs", link(), ["", "run"])}${place("Sessions", link("sessions"), ["sessions", "session"])}${place("Start", link("start"), ["start"])}${!me.value?.tenant && place("Operate", link("operate"), ["operate"])}</nav>
    <span class="grow"></span>
    ${waits.length > 0 && html`<a class="state person pill" href=${link("run", waits[0].runId, "decide", waits[0].call.call_id)}>
      <span aria-hidden="true">●</span> ${waits.length} waiting for a person</a>`}
    <span class=${`state ${isAway ? "held" : "done"}`}><span aria-hidden="true">●</span> ${isAway ? "Offline" : "Live"}</span>
    ${me.value?.isKnown && !needsToken.value && html`<span class="about">${plain(me.value.name)}${me.value.tenant ? ` · ${plain(me.value.tenant)}` : ""}</span>`}
    <${NotifyButton} />
    ${token.value && html`<button class="quiet" onClick=${signOut}>Sign out</button>`}
    <button class="quiet" aria-label="Keys" onClick=${() => (isHelpOpen.value = !isHelpOpen.value)}>?</button></header>`;
}

const isHelpOpen = signal(false);
const KEYS = [["/", "search"], ["n", "start a run"], ["w", "next that waits"], ["j k", "next, previous row"], ["a", "focus Approve"], ["d", "Deny…"], ["s", "steer"], ["x", "fork"], ["Ctrl or ⌘ + Enter", "send"], ["Esc", "back"], ["?", "these keys"]];

/** Nothing that this person has read or written stays in the tab; nothing is pushed to them here. */
async function signOut() {
  const patience = new Promise((go) => setTimeout(go, 2000));
  await Promise.race([unsubscribe().catch(() => {}), patience]);
  setToken("");
  location.hash = "";
  location.reload();
}

function App() {
  return html`<a class="skip" href="#app" onClick=${(/** @type {Event} */ event) => { event.preventDefault(); document.querySelector("main")?.setAttribute("tabindex", "-1"); document.querySelector("main")?.focus(); }}>Skip to the content</a>
    <${Bar} />
    ${isOffline.value && html`<p class="note held" role="status">No connection to the gateway since ${clock(offlineSince.value / 1000)}. Runs go on without this page.</p>`}
    ${!isOffline.value && serverTrouble.value && html`<p class="note held" role="status">${plain(serverTrouble.value)}</p>`}
    ${isHelpOpen.value && html`<section class="card narrow"><div class="card-head"><strong>Keys</strong><button class="quiet" onClick=${() => (isHelpOpen.value = false)}>Close</button></div>
      <dl class="keys">${KEYS.map(([key, words]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${words}</dd></div>`)}</dl></section>`}
    ${needsToken.value ? html`<${SignIn} />` : html`<${View} />`}
    <div class="unseen" role="status" aria-live="polite">${plain(announcement.value)}</div>`;
}

const ACTIONS = /** @type {Record<string, () => void>} */ ({
  "/": () => document.getElementById("search")?.focus(),
  n: () => (location.hash = link("start")),
  w: () => approvals.value[0] && (location.hash = link("run", approvals.value[0].runId, "decide", approvals.value[0].call.call_id)),
  j: () => step(1),
  k: () => step(-1),
  a: () => document.getElementById("approve")?.focus(),
  d: () => document.getElementById("deny")?.focus(),
  s: () => document.getElementById("composer")?.focus(),
  x: () => /** @type {HTMLAnchorElement | null} */ (document.querySelector('.actions a[href*="/fork/"]'))?.click(),
  "?": () => (isHelpOpen.value = !isHelpOpen.value),
  Escape: () => (location.hash = address.value.path[2] ? link(...address.value.path.slice(0, 2)) : link()),
});

/** Focus the next row of the list. @param {number} by */
function step(by) {
  const rows = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("a.run, .call > button")]);
  rows[Math.min(Math.max(rows.indexOf(/** @type {HTMLElement} */ (document.activeElement)) + by, 0), rows.length - 1)]?.focus();
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  const target = /** @type {HTMLElement} */ (event.target);
  const isField = target.matches("input, textarea, select, [contenteditable]");
  if (isField) {
    if (event.key === "Escape") target.blur();
    return;
  }
  const action = ACTIONS[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});

await finishSignIn();
render(html`<${App} />`, /** @type {HTMLElement} */ (document.getElementById("app")));
