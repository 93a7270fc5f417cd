/** The last line of each run in a list: read for the rows in view, once for a run that has ended. */
import { signal } from "@preact/signals";
import { glance } from "../api.js";
import { title } from "../format.js";
import { useWhileInView } from "./in_view.js";

/** @typedef {{text: string, colour: string, iterations: number | null, tokens: number | null, cost: number | null}} Last */

/** By run. @type {import("@preact/signals").Signal<Map<string, Last>>} */
export const lasts = signal(new Map());
/** A run's id may be used again, and its end changes the last line. @param {any} run */
export const keyOf = (run) => `${run.id} ${run.started} ${run.closed ?? ""}`;

const AT_ONCE = 4;
/** @type {(() => Promise<void>)[]} */
const queue = [];
let working = 0;

async function work() {
  if (working >= AT_ONCE) return;
  working += 1;
  for (let next = queue.shift(); next; next = queue.shift()) await next().catch(() => undefined);
  working -= 1;
}

/** @param {any} run */
async function load(run) {
  const path = `/runs/${encodeURIComponent(run.id)}`;
  const last = run.closed ? ended(await glance(`${path}/result`)) : open(await glance(path));
  lasts.value = new Map(lasts.value).set(keyOf(run), last);
}

/** The last line of a run that was read. @param {any} view @param {any} result of one that has ended */
export const lineOf = (view, result) => (result ? ended(result) : open(view));

/** @param {any} found @returns {Last} */
function ended({ output, error, usage, iterations, costUsd }) {
  const text = error ? error.message : typeof output === "string" ? output : JSON.stringify(output);
  return { text, colour: error ? "failed" : "", iterations, tokens: usage?.total_tokens ?? null, cost: costUsd };
}

/** @param {any} found @returns {Last} */
function open({ state }) {
  const { held, held_up: up, queue_without_worker: queue, pending_approvals: waits } = state;
  const why = held?.length ? held[0].why : queue ? `No worker on queue ${queue}` : up ? up.why : "";
  const text = why || (waits.length ? `${title(waits[0].name)} waits` : state.children?.length ? `${state.children.length} sub-agents work` : "Working");
  return { text, colour: why ? "held" : waits.length ? "person" : "working", iterations: state.iteration, tokens: state.usage.total_tokens, cost: state.cost_usd };
}

/** Read the last line of a row while it is in view. @param {any} run */
export function useLast(run) {
  const key = keyOf(run);
  const isKnown = run.closed && lasts.peek().has(key);
  const read = async () => {
    queue.push(() => load(run));
    work();
    return !run.closed;
  };
  return { place: useWhileInView(isKnown ? null : read, key), last: lasts.value.get(key) };
}
