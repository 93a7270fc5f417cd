/** Images, files and recordings: of messages, and those that a person attaches. */
import { plain } from "../format.js";
import { html } from "../html.js";
import { Act } from "./basics.js";

/** Types that a browser draws and never executes. */
const SHOWN = /^image\/(png|jpeg|gif|webp|avif)$/;
const DATA = /^data:([^;,]*)(?:;[^;,]*)*;base64,/i;
const BASE64 = /^[A-Za-z0-9+/\s]+={0,2}\s*$/;
/** The files of one message may have so many bytes together: a session takes 6 MiB of base64. */
export const MAX_BYTES = 4_500_000;

/** Bytes in words. @param {number} bytes */
export const size = (bytes) => (bytes < 1000 ? `${bytes} bytes` : bytes < 1e6 ? `${(bytes / 1000).toFixed(1)} KB` : `${(bytes / 1e6).toFixed(1)} MB`);

/** A part's type and base64; null where the source is an address. @param {any} part */
function contentOf({ source, mediaType }) {
  const found = DATA.exec(source);
  if (found) return { type: found[1] || mediaType || "", data: source.slice(found[0].length) };
  return /^[a-z][a-z0-9+.-]*:/i.test(source) ? null : { type: mediaType ?? "", data: source.replaceAll("-", "+").replaceAll("_", "/") };
}

/** A name for the disk. @param {any} part @param {string} type */
const fileName = ({ filename, kind }, type) => (filename ? plain(filename).replace(/[^\w. ()-]/g, "_").replace(/^\.+/, "_").slice(-120) : `${kind}${/^\w+\/\w+$/.test(type) ? `.${type.split("/")[1]}` : ""}`);

/** Save it as bytes without a type: no browser executes them. @param {string} data @param {string} name */
function save(data, name) {
  const bytes = Uint8Array.from(atob(data), (each) => each.charCodeAt(0));
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 1000);
}

/** @param {{part: any}} props */
function Medium({ part }) {
  const content = contentOf(part);
  const label = plain(part.filename ?? part.kind);
  if (!content) return html`<li><span class="about">${label} at ${plain(part.source)}</span></li>`;
  const { type, data } = content;
  const isShown = part.kind === "image" && SHOWN.test(type) && BASE64.test(data);
  return html`<li>${isShown && html`<img src=${`data:${type};base64,${data}`} alt=${label} />`}
    <span class="about">${label} · ${plain(type)} · ${size(Math.floor((data.replace(/[=\s]/g, "").length * 3) / 4))}</span>
    <${Act} kind="quiet" act=${() => save(data, fileName(part, type))}>Save<//></li>`;
}

/** Each with name, type and size; images of safe types in place. @param {{parts?: any[]}} props */
export function Media({ parts = [] }) {
  return parts.length > 0 && html`<ul class="media">${parts.map((part) => html`<${Medium} part=${part} />`)}</ul>`;
}

/** A part of a message with the file's content. @param {File} file @returns {Promise<any>} */
export async function partOf(file) {
  const url = await new Promise((done, fail) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.onerror = () => fail(new Error(`${file.name} can't be read: attach it again.`));
    reader.readAsDataURL(file);
  });
  const kind = ["image", "audio"].find((each) => file.type.startsWith(`${each}/`)) ?? "file";
  return { kind, source: url.slice(url.indexOf(",") + 1), mediaType: file.type || "application/octet-stream", filename: file.name };
}
