/** In place of `api.js` where the page is a file: the gateway's answers about the runs in it. */
import { signal } from "@preact/signals";
import { exact } from "./format.js";
import { Problem } from "./problem.js";
import { emptyRun, take, usageOf, waiting } from "./run_model.js";

/** `runs`: the events of each run by its id; `setup`: as the gateway answers it. @type {any} */
export const file = exact(document.getElementById("data")?.textContent ?? "");

export const isLive = false;
export const present = () => file.writtenAt;
export const token = signal("");
export const needsToken = signal(false);
export const offlineSince = signal(0);

/** @param {string} path */
export async function get(path) {
  const [, id, what = ""] = /^\/runs\/([^/]+)\/?(\w*)$/.exec(path)?.map(decodeURIComponent) ?? [];
  const events = file.runs[id];
  if (!events || (what === "setup" && id !== file.id)) throw new Problem(404, "not_found", "This file does not contain it.");
  if (what === "setup") return file.setup;
  if (what === "events") return events;
  const run = emptyRun();
  for (const event of events) take(run, event);
  if (what === "messages") return run.messages;
  if (what === "calls") return [];
  const { end } = run;
  const { input, output, cost } = usageOf(run);
  const usage = { total_tokens: input + output };
  const calls = waiting(run).map((each) => ({ ...each.request, call_id: each.id }));
  if (what === "result") return { output: end?.response ?? null, error: end?.message === undefined ? null : end, usage, iterations: run.iterations.length, costUsd: cost };
  const state = { status: end?.type ?? (run.held ? "held" : "running"), held: run.held ? [run.held] : [], pending_approvals: calls, iteration: run.iterations.length, usage, cost_usd: cost };
  return { id, agent: id === file.id ? file.agent : null, status: state.status, closed: end && String(end.at), state };
}

export const glance = get;

/** @param {string} path */
export async function post(path) {
  throw new Problem(405, "read_only", `This page is a file: nothing can be sent to ${path}.`);
}

export const freshKey = () => "";

/** @param {string} path @param {string} after @param {(event: any) => boolean | void} take @param {AbortSignal} abort @param {(problem: Problem) => void} fail */
export async function follow(path, after, take, abort, fail) {
  try {
    for (const event of await get(path)) take(event);
  } catch (error) {
    fail(/** @type {Problem} */ (error));
  }
}
