/** A session as its events describe it: its turns, each a run. */
import { emptyRun, take } from "./run_model.js";

/** @typedef {{id: string, run: import("./run_model.js").Run}} Turn
 * @typedef {{turns: Turn[], position: string}} Talk */

/** @returns {Talk} */
export const emptyTalk = () => ({ turns: [], position: "" });

/** Take the next event. @param {Talk} talk @param {any} event */
export function hear(talk, { run_id: id, ...event }) {
  talk.position = event.position;
  const last = talk.turns.at(-1);
  let turn = talk.turns.findLast((each) => each.id === id);
  if (!turn) talk.turns.push((turn = { id, run: emptyRun(last?.run.messages ?? []) }));
  take(turn.run, event);
}

/** The number of a turn. @param {string} id of its run */
export const numberOf = (id) => Number(id.slice(id.lastIndexOf("/") + 1));
