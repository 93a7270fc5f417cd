/** The field in which a person tells a run or a session something. */
import { useState } from "preact/hooks";
import { html } from "../html.js";
import { Trouble } from "./basics.js";

/** @param {{label: string, send: (text: string) => Promise<unknown>, id?: string}} props */
export function Composer({ label, send, id = "composer" }) {
  const [text, setText] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const submit = async () => {
    if (!text.trim() || isBusy) return;
    setBusy(true);
    setProblem(null);
    try {
      await send(text);
      setText("");
    } catch (error) {
      setProblem(error);
    } finally {
      setBusy(false);
    }
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) submit();
  };
  return html`<div class="composer">
    <textarea id=${id} rows="2" placeholder=${label} aria-label=${label} value=${text} onKeyDown=${onKeyDown}
      onInput=${(/** @type {any} */ event) => setText(event.currentTarget.value)}></textarea>
    <button class="primary" disabled=${isBusy || !text.trim()} onClick=${submit}>${isBusy ? "Sending…" : "Send"}</button>
    <${Trouble} error=${problem} />
  </div>`;
}
