/** The field in which a person tells a run or a session something. */
import { useMemo, useState } from "preact/hooks";
import { freshKey } from "../api.js";
import { plain } from "../format.js";
import { html } from "../html.js";
import { Trouble } from "./basics.js";
import { MAX_BYTES, partOf, size } from "./media.js";

/**
 * @param {{label: string, send: (text: string, parts: any[], key: string) => Promise<unknown>, id?: string, takesFiles?: boolean, children?: any}} props
 *   `children`: further controls; `send` gets the same key for what is sent again after a failure
 */
export function Composer({ label, send, id = "composer", takesFiles = false, children }) {
  const [text, setText] = useState("");
  const [files, setFiles] = useState(/** @type {File[]} */ ([]));
  const [isBusy, setBusy] = useState(false);
  const key = useMemo(freshKey, [text, files]);
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  const isEmpty = !text.trim() && !files.length;
  const submit = async () => {
    if (isEmpty || isBusy) return;
    setBusy(true);
    setProblem(null);
    try {
      await send(text, await Promise.all(files.map(partOf)), key);
      setText("");
      setFiles([]);
    } catch (error) {
      setProblem(error);
    } finally {
      setBusy(false);
    }
  };
  const attach = (/** @type {FileList | undefined} */ list) => {
    const all = [...files, ...(list ?? [])];
    const bytes = all.reduce((sum, each) => sum + each.size, 0);
    setProblem(bytes > MAX_BYTES ? `The files of a message have ${size(bytes)}, at most ${size(MAX_BYTES)} are possible: attach smaller ones.` : null);
    if (bytes <= MAX_BYTES) setFiles(all);
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) submit();
  };
  const onFiles = (/** @type {Event} */ event, /** @type {FileList | undefined} */ list) => {
    if (!takesFiles || !list?.length) return;
    event.preventDefault();
    attach(list);
  };
  return html`<div class="composer" onDrop=${(/** @type {DragEvent} */ event) => onFiles(event, event.dataTransfer?.files)}>
    <textarea id=${id} rows="2" placeholder=${label} aria-label=${label} value=${text} onKeyDown=${onKeyDown}
      onPaste=${(/** @type {ClipboardEvent} */ event) => onFiles(event, event.clipboardData?.files)}
      onInput=${(/** @type {any} */ event) => setText(event.currentTarget.value)}></textarea>
    <span class="act">${takesFiles && html`<label class="button attach">Attach<input class="unseen" type="file" multiple aria-label=${`Attach files: ${label}`}
      onChange=${(/** @type {any} */ event) => { attach(event.currentTarget.files); event.currentTarget.value = ""; }} /></label>`}
      <button class="primary" disabled=${isBusy || isEmpty} onClick=${submit}>${isBusy ? "Sending…" : "Send"}</button></span>
    ${files.length > 0 && html`<ul class="media">${files.map((file) => html`<li><span class="about">${plain(file.name)} · ${size(file.size)}</span>
      <button class="quiet" onClick=${() => setFiles(files.filter((each) => each !== file))}>Remove</button></li>`)}</ul>`}
    ${children}
    <${Trouble} error=${problem} />
  </div>`;
}
