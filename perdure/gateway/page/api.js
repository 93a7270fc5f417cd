/** Requests to the gateway's own API (`/perdure/openapi.json`). */
import { signal } from "@preact/signals";
import { createParser } from "eventsource-parser";
import { exact } from "./format.js";
import { Problem } from "./problem.js";

/** Whether there is a gateway: a page in a file shows one run as it was, and changes nothing. */
export const isLive = true;
/** Seconds since the epoch. */
export const present = () => Date.now() / 1000;

const TOKEN = "perdure-token";
/** Kept for this tab alone; another origin's scripts cannot read it. */
export const token = signal(sessionStorage.getItem(TOKEN) ?? "");
/** Whether the gateway has refused the last request for want of a valid token. */
export const needsToken = signal(false);
/** The time in ms since which the gateway does not answer; 0 while it does. */
export const offlineSince = signal(0);
/** Why the gateway cannot read runs: its Temporal server fails. "" while it does not. */
export const serverTrouble = signal("");

/** @param {string} value */
export function setToken(value) {
  token.value = value.trim();
  if (token.value) sessionStorage.setItem(TOKEN, token.value);
  else sessionStorage.removeItem(TOKEN);
  needsToken.value = false;
}

/** @param {Record<string, string>} [more] */
function headers(more = {}) {
  return token.value ? { ...more, Authorization: `Bearer ${token.value}` } : more;
}

/**
 * Send a request to the path below `/perdure`. Rejects with a `Problem`.
 * @param {string} method @param {string} path @param {unknown} [body]
 * @param {Record<string, string>} [more] further headers
 */
export async function call(method, path, body, more = {}) {
  let response;
  try {
    response = await fetch(`perdure${path}`, {
      method,
      headers: headers(body === undefined ? more : { ...more, "Content-Type": "application/json" }),
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    offlineSince.value ||= Date.now();
    throw new Problem(0, "offline", "The gateway does not answer. Runs continue without this page.");
  }
  offlineSince.value = 0;
  if (response.ok) {
    serverTrouble.value = "";
    return response.status === 204 ? null : exact(await response.text());
  }
  throw await problemOf(response);
}

/** @param {Response} response */
async function problemOf(response) {
  needsToken.value ||= response.status === 401;
  try {
    const { kind, detail } = await response.json();
    if (kind === "temporal_unavailable") serverTrouble.value = detail;
    return new Problem(response.status, kind, detail ?? response.statusText);
  } catch {
    return new Problem(response.status, "unknown", `The gateway answered ${response.status}.`);
  }
}

/** Seconds by which an answer may be older: pages that show the same then share the gateway's work. */
const SHARED_SECONDS = 4;

/** @param {string} path @param {Record<string, unknown>} [query] @param {Record<string, string>} [more] */
export function get(path, query = {}, more = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return call("GET", text ? `${path}?${text}` : path, undefined, more);
}

/** As `get`; the answer may be some seconds old. @param {string} path @param {Record<string, unknown>} [query] @param {number} [age] */
export const glance = (path, query = {}, age = SHARED_SECONDS) => get(path, query, { "Cache-Control": `max-age=${age}` });

/** A key that no other request has. Browsers have `randomUUID` for secure origins alone. */
export const freshKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (each) => each.toString(16).padStart(2, "0")).join("");

/** @param {string} path @param {unknown} [body] @param {Record<string, string>} [more] */
export const post = (path, body = {}, more = {}) => call("POST", path, body, more);

const RETRY_MS = [1000, 2000, 5000, 10000, 30000];

/**
 * Read a stream of events until `take` returns true or `abort` is signalled, across reconnects.
 * @param {string} path
 * @param {string} after position of the last event that the page has
 * @param {(event: any) => boolean | void} take
 * @param {AbortSignal} abort
 * @param {(problem: Problem) => void} fail called once, for a refusal that no retry cures
 */
export async function follow(path, after, take, abort, fail) {
  let position = after;
  for (let tries = 0; !abort.aborted; ) {
    let ended = false;
    const parser = createParser({
      onEvent(message) {
        if (message.event === "resume") return;
        tries = 0;
        if (message.event === "problem") {
          const { status, kind, detail } = JSON.parse(message.data);
          ended = true;
          return fail(new Problem(status, kind, detail));
        }
        if (message.id) position = message.id;
        ended = take(exact(message.data)) === true || ended;
      },
    });
    try {
      const query = position ? `?after=${encodeURIComponent(position)}` : "";
      const response = await fetch(`perdure${path}${query}`, {
        headers: headers({ Accept: "text/event-stream" }),
        signal: abort,
      });
      if (!response.ok) {
        const problem = await problemOf(response);
        if (response.status < 500 && response.status !== 429) return fail(problem);
        throw problem;
      }
      offlineSince.value = 0;
      const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
      const decoder = new TextDecoder();
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        parser.feed(decoder.decode(part.value, { stream: true }));
        if (ended) {
          await reader.cancel();
          return;
        }
      }
    } catch (error) {
      if (abort.aborted) return;
      if (!(error instanceof Problem)) offlineSince.value ||= Date.now();
    }
    await new Promise((go) => setTimeout(go, RETRY_MS[Math.min(tries++, RETRY_MS.length - 1)]));
  }
}
