/** Small parts: states, folded text, Markdown, problems, buttons that act once. */
import DOMPurify from "dompurify";
import { marked } from "marked";
import { useEffect, useRef, useState } from "preact/hooks";
import { plain } from "../format.js";
import { html } from "../html.js";

const STATES = /** @type {Record<string, [string, string, string]>} */ ({
  waiting: ["person", "●", "Waiting for a person"],
  held: ["held", "◌", "Held"],
  running: ["working", "◔", "Working"],
  done: ["done", "✓", "Done"],
  failed: ["failed", "✕", "Failed"],
  cancelled: ["cancelled", "–", "Cancelled"],
  terminated: ["cancelled", "–", "Terminated"],
  timed_out: ["failed", "✕", "Timed out"],
  waiting_for_approval: ["person", "●", "Waiting for a person"],
});

/** @param {string} status */
export const colourOf = (status) => STATES[status]?.[0] ?? "working";

/** @param {{status: string, words?: boolean}} props */
export function State({ status, words = false }) {
  const [colour, glyph, text] = STATES[status] ?? ["working", "◔", plain(status)];
  return html`<span class=${`state ${colour} ${words ? "pill" : ""}`}>
    <span aria-hidden="true">${glyph}</span>${words ? text : html`<span class="unseen">${text}</span>`}
  </span>`;
}

const LINES = 12;
const CHARS = 2048;

/** Foreign text as it is, folded when it is long. @param {{text: string, mono?: boolean}} props */
export function Folded({ text, mono = true }) {
  const [isOpen, open] = useState(false);
  const whole = plain(text);
  const lines = whole.split("\n");
  const isLong = lines.length > LINES || whole.length > CHARS;
  const shown = isLong && !isOpen ? lines.slice(0, LINES).join("\n").slice(0, CHARS) : whole;
  const all = lines.length > LINES ? `all ${lines.length.toLocaleString()} lines` : `all ${whole.length.toLocaleString()} characters`;
  return html`<div class="folded">
    <pre class=${mono ? "" : "prose"} tabindex="0">${shown}${isLong && !isOpen ? " …" : ""}</pre>
    ${isLong && html`<button class="quiet" onClick=${() => open(!isOpen)}>${isOpen ? "Show less" : `Show ${all}`}</button>`}
  </div>`;
}

const ALLOWED = {
  ALLOWED_TAGS: ["p", "br", "strong", "em", "del", "code", "pre", "ul", "ol", "li", "blockquote", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td", "hr", "a"],
  ALLOWED_ATTR: ["href"],
  ALLOWED_URI_REGEXP: /^https?:/i,
  ALLOW_DATA_ATTR: false,
};
const writer = new marked.Renderer();
writer.html = ({ text }) => text.replace(/[&<>]/g, (found) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[found] ?? "");
writer.image = ({ text, href }) => `[image: ${text || href}]`.replace(/[&<>]/g, "");
writer.heading = function ({ tokens, depth }) {
  const level = Math.min(depth + 3, 6);
  return `<h${level}>${this.parser.parseInline(tokens)}</h${level}>`;
};

const MAX_MARKDOWN = { chars: 200_000, word: 2000, columns: 200, nesting: /^[ \t>*+\-\d.)]{200}/ };

/** Whether a text would take seconds, or more stack than there is. @param {string} text */
const isHard = (text) =>
  text.length > MAX_MARKDOWN.chars || text.split(/\s/).some((word) => word.length > MAX_MARKDOWN.word)
  || text.split("\n").some((line) => MAX_MARKDOWN.nesting.test(line) || line.split("|").length > MAX_MARKDOWN.columns);

/** Markdown of a model: no HTML, no images, links to http(s) with their host shown; text as it is where it is hard to read. @param {{text: string}} props */
export function Markdown({ text }) {
  const ref = useRef(/** @type {HTMLDivElement | null} */ (null));
  const isPlain = isHard(plain(text));
  useEffect(() => {
    const place = ref.current;
    if (!place || isPlain) return;
    const made = marked.parse(plain(text), { renderer: writer, async: false, gfm: true });
    place.replaceChildren(DOMPurify.sanitize(made, { ...ALLOWED, RETURN_DOM_FRAGMENT: true }));
    for (const anchor of place.querySelectorAll("a")) {
      const target = anchor.getAttribute("href") ?? "";
      if (!URL.canParse(target)) {
        anchor.removeAttribute("href");
        continue;
      }
      anchor.rel = "noopener noreferrer nofollow";
      anchor.target = "_blank";
      anchor.append(` (${new URL(target).host})`);
    }
  }, [text]);
  return isPlain ? html`<${Folded} text=${text} mono=${false} />` : html`<div class="prose" ref=${ref}></div>`;
}

/** A button that acts once at a time and shows why it failed. @param {any} props */
export function Act({ act, children, kind = "", disabled = false, busy = "Sending…", id = undefined, fail = undefined }) {
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const click = async () => {
    setBusy(true);
    setProblem("");
    try {
      await act();
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error);
      fail ? fail(error) : setProblem(text);
    } finally {
      setBusy(false);
    }
  };
  return html`<span class="act">
    <button id=${id} class=${kind} disabled=${disabled || isBusy} onClick=${click}>${isBusy ? busy : children}</button>
    ${problem && html`<span class="problem" role="alert">${plain(problem)}</span>`}
  </span>`;
}

/** Asks once before it acts. @param {any} props */
export function Sure({ act, children, sentence, confirm, kind = "danger" }) {
  const [isAsked, ask] = useState(false);
  if (!isAsked) return html`<button class=${kind} onClick=${() => ask(true)}>${children}</button>`;
  return html`<span class="sure" role="group" aria-label=${confirm}>
    <span>${sentence}</span>
    <${Act} kind="danger" act=${async () => { await act(); ask(false); }}>${confirm}<//>
    <button onClick=${() => ask(false)}>Back</button>
  </span>`;
}

/** @param {{error: any}} props */
export function Trouble({ error }) {
  if (!error) return null;
  return html`<p class="problem" role="alert">${plain(error.message ?? error)}</p>`;
}
