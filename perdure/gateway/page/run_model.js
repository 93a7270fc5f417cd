/** A run as its events describe it: iterations with their model calls, tool calls and messages. */
import { get } from "./api.js";

/**
 * @typedef {{id: string, name: string, arguments: string, started: number, ended: number,
 *   result: string | null, state: "working" | "done" | "denied" | "failed" | "cancelled" | "waiting",
 *   progress: {done: number, total: number | null, text: string} | null, children: string[], media: any[],
 *   request: any, decision: any, votes: any[]}} Call
 * @typedef {{role: string, text: string, by: string, media?: any[]}} Said
 * @typedef {{number: number, started: number, modelEnded: number, text: string, thinking: string,
 *   usage: any, cost: number | null, model: string, lostAttempts: number, isWriting: boolean,
 *   calls: Call[], said: Said[], notes: {time: number, kind: string, text: string}[]}} Iteration
 * @typedef {{iterations: Iteration[], events: any[], messages: any[], position: string,
 *   end: any, held: any, first: number, last: number, changed: Record<string, any>, model: string,
 *   before: any[], early: Said[], hasBegun: boolean, isTurn: boolean}} Run
 */

/** @param {any[] | null} [before] of a session's turn: the conversation so far @returns {Run} */
export function emptyRun(before = null) {
  return { iterations: [], events: [], messages: [...(before ?? [])], before: [], early: [], hasBegun: false, isTurn: before !== null, position: "", end: null, held: null, first: 0, last: 0, changed: {}, model: "" };
}

/** @param {any} message */
export const textOf = (message) =>
  message.parts.map((/** @type {any} */ part) => (part.kind === "text" ? part.value : `[${part.kind}]`)).join("");

/** The text of a message alone. @param {any} message */
const wordsOf = (message) => message.parts.map((/** @type {any} */ part) => (part.kind === "text" ? part.value : "")).join("");

/** Its images, files and recordings. @param {any} message @returns {any[]} */
export const mediaOf = (message) => message.parts.filter((/** @type {any} */ part) => part.kind !== "text");

/** A person's message. @param {any} message @param {string} role @returns {Said} */
export const saidOf = (message, role) => ({ role, text: wordsOf(message), by: message.metadata?.by ?? "", media: mediaOf(message) });

/** The messages that open a turn, in a conversation that ends with them or with the reply, and those before. @param {any[]} messages */
export function openingOf(messages) {
  const end = messages.at(-1)?.role === "user" ? messages.length : messages.findLastIndex((each) => each.role === "assistant");
  const start = messages.slice(0, Math.max(end, 0)).findLastIndex((each) => each.role !== "user") + 1;
  return { before: messages.slice(0, start), said: messages.slice(start, Math.max(end, 0)) };
}

/** A copy of the event's iteration and call, in their place: what is drawn of the others stays.
 * @param {Run} run @param {any} event @returns {Iteration} */
function changed(run, event) {
  const number = Math.max(event.iteration, 1);
  const time = event.time;
  const index = run.iterations.findLastIndex((each) => each.number === number);
  if (index < 0) {
    const found = {
      number, started: time, modelEnded: 0, text: "", thinking: "", usage: null, cost: null, model: "",
      lostAttempts: 0, isWriting: false, calls: [], said: [], notes: [],
    };
    run.iterations.push(found);
    return found;
  }
  const before = run.iterations[index];
  const id = event.call_id ?? event.data.callId;
  const calls = before.calls.map((each) => (each.id === id ? { ...each } : each));
  return (run.iterations[index] = { ...before, calls });
}

/** @param {Iteration} iteration @param {any} event @returns {Call} */
function callOf(iteration, event) {
  let found = iteration.calls.find((each) => each.id === event.call_id);
  if (!found) {
    found = {
      id: event.call_id, name: event.data.name ?? "", arguments: "", started: event.time, ended: 0, result: null,
      state: "working", progress: null, children: [], media: [], request: null, decision: null, votes: [],
    };
    iteration.calls.push(found);
  }
  return found;
}

/** Apply the changes of the conversation; returns the messages that were added. @param {Run} run @param {any[]} operations */
function converse(run, operations) {
  const added = [];
  for (const change of operations ?? []) {
    if (change.op === "append") {
      run.messages.push(...change.messages);
      added.push(...change.messages);
    } else if (change.op === "rewrite") {
      added.push(...change.messages.slice(run.hasBegun ? run.messages.length : 0));
      run.messages = [...change.messages];
    }
    else if (change.op === "trim") {
      const dropped = run.messages.slice(change.head, change.head + change.drop);
      const summary = change.summary ? [change.summary] : [];
      run.messages.splice(change.head, change.drop, ...dropped.filter((each) => each.role === "system"), ...summary);
    }
  }
  return added;
}

/** What each type of event changes. @type {Record<string, (run: Run, iteration: Iteration, data: any, event: any) => void>} */
const CHANGES = {
  llm_start: (run, iteration, data, event) => {
    iteration.started = event.time || iteration.started;
    run.held = null;
  },
  token: (run, iteration, data) => {
    iteration.text += data.token;
    iteration.isWriting = true;
  },
  thinking: (run, iteration, data) => {
    iteration.thinking += data.token;
    iteration.isWriting = true;
  },
  text_reset: (run, iteration) => {
    iteration.text = iteration.thinking = "";
  },
  llm_complete: (run, iteration, data, event) => {
    iteration.modelEnded = event.time;
    iteration.usage = data.usage;
    iteration.cost = data.costUsd;
    iteration.model = data.model ?? "";
    iteration.lostAttempts = data.lostAttempts ?? 0;
    iteration.text = data.text ?? iteration.text;
    iteration.isWriting = false;
  },
  tool_call_start: (run, iteration, data, event) => {
    const call = callOf(iteration, event);
    call.arguments = data.arguments;
    call.started = event.time;
  },
  tool_progress: (run, iteration, data, event) => {
    callOf(iteration, { ...event, call_id: event.call_id ?? data.callId }).progress = data;
  },
  child_started: (run, iteration, data, event) => {
    callOf(iteration, event).children.push(data.run_id);
  },
  tool_result: (run, iteration, data, event) => {
    const call = callOf(iteration, event);
    call.result = data.result;
    call.ended = event.time;
    call.progress = null;
    call.state = data.isDenied ? "denied" : data.isCancelled ? "cancelled" : data.outcomeUnknown ? "failed" : "done";
  },
  permission_requested: (run, iteration, data, event) => {
    const call = callOf(iteration, event);
    call.request = { ...data, since: event.time };
    call.state = "waiting";
  },
  permission_vote: (run, iteration, data, event) => {
    callOf(iteration, event).votes.push(data);
  },
  permission_completed: (run, iteration, data, event) => {
    const call = callOf(iteration, event);
    call.decision = { ...data, at: event.time };
    call.state = "working";
  },
  held: (run, iteration, data, event) => {
    run.held = { ...data, why: data.message, since: event.time };
    iteration.notes.push({ time: event.time, kind: "held", text: `Held: ${data.message}` });
  },
  went_on: (run, iteration, data, event) => {
    run.held = null;
    Object.assign(run.changed, data.options);
    run.model = data.model ?? run.model;
    const changes = Object.entries(data.options ?? {}).map(([name, value]) => `${name} ${value}`);
    if (data.model) changes.push(`model ${data.model}`);
    iteration.notes.push({ time: event.time, kind: "held", text: `${data.by ?? "Somebody"} let it go on${changes.length ? ` with ${changes.join(", ")}` : ""}` });
  },
  messages_updated: (run, iteration, data) => {
    const isFirst = !run.hasBegun;
    const added = converse(run, data.operations);
    run.hasBegun = true;
    const reply = added.findIndex((each) => each.role === "assistant");
    let given = isFirst && reply >= 0 ? added.slice(0, reply) : added;
    if (isFirst && run.isTurn) {
      run.before = openingOf(added).before;
      given = openingOf(added).said;
    }
    for (const message of given) if (message.role === "user") iteration.said.push(saidOf(message, isFirst ? "input" : "user"));
    for (const message of added.filter((each) => each.role === "tool" && mediaOf(each).length)) {
      const call = run.iterations.flatMap((each) => each.calls).findLast((each) => each.id === message.metadata.tool_call_id);
      if (call) call.media = mediaOf(message);
    }
  },
};
for (const type of ["done", "failed", "cancelled"])
  CHANGES[type] = (run, iteration, data, event) => {
    const added = converse(run, data.operations);
    iteration.isWriting = false;
    run.held = null;
    run.end = { ...data, type, at: event.time, media: added.filter((each) => each.role === "assistant").flatMap(mediaOf) };
  };
for (const type of ["status", "error", "model_fallback", "handoff", "compaction_complete", "compaction_failed"])
  CHANGES[type] = (run, iteration, data, event) => {
    const text = data.message ?? (type === "handoff" ? `Handed over to ${data.name}: ${data.reason}` : type.replace("_", " "));
    iteration.notes.push({ time: event.time, kind: type, text });
  };

/** Take the next event. @param {Run} run @param {any} event */
export function take(run, event) {
  if (event.run_id) return;
  if (event.type !== "token" && event.type !== "thinking") run.events.push(event);
  run.position = event.position;
  if (event.time) {
    run.first ||= event.time;
    run.last = event.time;
  }
  CHANGES[event.type]?.(run, changed(run, event), event.data, event);
}

/** The calls that wait for a person. @param {Run} run */
export const waiting = (run) => run.iterations.flatMap((each) => each.calls).filter((each) => each.state === "waiting");

/** The words that lead to a call: what the model said before it. @param {Run} run @param {string} id */
export const wordsBefore = (run, id) => run.iterations.find((each) => each.calls.some((call) => call.id === id))?.text ?? "";

/** Tokens of all model calls. @param {Run} run */
export function usageOf(run) {
  const sum = { input: 0, cached: 0, output: 0, cost: /** @type {number | null} */ (null), calls: 0 };
  for (const { usage, cost } of run.iterations) {
    if (!usage) continue;
    sum.calls += 1;
    sum.input += Number(usage.input_tokens);
    sum.cached += Number(usage.cached_input_tokens);
    sum.output += Number(usage.output_tokens);
    if (cost !== null && cost !== undefined) sum.cost = (sum.cost ?? 0) + cost;
  }
  return sum;
}

/** The run of an id, by its events so far. @param {string} id @returns {Promise<Run>} */
export async function readRun(id) {
  const run = emptyRun();
  for (const event of await get(`/runs/${encodeURIComponent(id)}/events`)) take(run, event);
  return run;
}
