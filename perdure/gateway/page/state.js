/** What several views share: the address, the time, what waits, and what is announced. */
import { computed, effect, signal } from "@preact/signals";
import { get, glance, needsToken, offlineSince, present, token } from "./api.js";

/** The part of the address after `#`, as path segments and query. */
export const address = signal(parsed());

function parsed() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { path: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query ?? "") };
}

/** A segment of the address, as it is where its % is no escape: somebody has typed it. @param {string} segment */
function decoded(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
addEventListener("hashchange", () => (address.value = parsed()));

/** `#/run/ID`. @param {...string} path */
export const link = (...path) => `#/${path.map(encodeURIComponent).join("/")}`;

/** Change the query of the address, in place. @param {Record<string, string>} changes */
export function refine(changes) {
  const { path, query } = address.value;
  for (const [name, value] of Object.entries(changes)) value ? query.set(name, value) : query.delete(name);
  const text = query.toString();
  history.replaceState(null, "", link(...path) + (text ? `?${text}` : ""));
  address.value = parsed();
}

/** Seconds since the epoch, once a second. */
export const now = signal(present());
setInterval(() => (now.value = present()), 1000);

/** Whether the reader's tab is visible: hidden tabs read nothing. */
export const isVisible = signal(!document.hidden);
document.addEventListener("visibilitychange", () => (isVisible.value = !document.hidden));

export const isOffline = computed(() => offlineSince.value > 0 && now.value * 1000 - offlineSince.value > 3000);

/** The calls that wait for a person, longest first. */
export const approvals = signal(/** @type {any[]} */ ([]));
/** The reader, as the gateway knows it; null before it has answered. */
export const me = signal(/** @type {{name: string, tenant: string | null, roles: string[], isKnown: boolean} | null} */ (null));
effect(() => {
  if (!needsToken.value && token.value !== undefined) get("/me").then((found) => (me.value = found), () => (me.value = null));
});
/** A sentence for screen readers, when something changed. */
export const announcement = signal("");

/** @param {boolean} [isFresh] whether the last seconds count, such as after a decision */
export async function loadApprovals(isFresh = false) {
  const found = await (isFresh ? get : glance)("/approvals", { limit: 200 });
  found.sort((/** @type {any} */ a, /** @type {any} */ b) => a.call.since - b.call.since);
  approvals.value = found;
}

const EVERY_MS = 4000;
const HIDDEN_MS = 30000;

/**
 * Repeat a request while the tab is visible, and at once when it becomes visible again.
 * @param {() => Promise<unknown>} load @param {number} [every] in ms
 * @param {() => boolean} [goesOn] whether it is repeated in a hidden tab, too, every 30 s @returns {() => void} ends it
 */
export function repeat(load, every = EVERY_MS, goesOn = () => false) {
  let timer = 0;
  let ended = false;
  const run = async () => {
    clearTimeout(timer);
    if (ended || needsToken.peek() || !(isVisible.peek() || goesOn())) return;
    try {
      await load();
    } catch {
      // The bar shows that the gateway is away or wants a token.
    }
    if (!ended) timer = setTimeout(run, isVisible.peek() ? every : HIDDEN_MS);
  };
  const dispose = effect(() => {
    if ((isVisible.value || goesOn()) && !needsToken.value && token.value !== undefined) run();
  });
  return () => {
    ended = true;
    clearTimeout(timer);
    dispose();
  };
}

/**
 * Load once, and again where the gateway was away or failed.
 * @param {() => Promise<unknown>} load @returns {() => void} ends it
 */
export function once(load) {
  const end = repeat(() => load().then(() => end(), (error) => {
    if (error.status >= 400 && error.status < 500) end();
    throw error;
  }));
  return end;
}
