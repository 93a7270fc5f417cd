// Elements and text. Whatever was written by a model, a tool or a person goes through `text`, never into markup.

const ODD = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/u;
const FOLD_LINES = 12;
const FOLD_CHARACTERS = 2048;
const PIECE = 262144;

/** An element with classes, properties and children; a child that is a string is text. */
function el(tag, classes = "", properties = {}, ...children) {
  const made = document.createElement(tag);
  if (classes) made.className = classes;
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role") made.setAttribute(name, value);
    else made[name] = value;
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === "") continue;
    made.append(typeof child === "string" ? text(child) : child);
  }
  return made;
}

/** Text in which characters that can't be seen, or that turn text round, stand as their number. */
function text(value) {
  const whole = document.createDocumentFragment();
  let rest = value;
  for (let at = rest.search(ODD); at >= 0; at = rest.search(ODD)) {
    whole.append(document.createTextNode(rest.slice(0, at)));
    const number = rest.codePointAt(at).toString(16).toUpperCase().padStart(4, "0");
    const mark = document.createElement("span");
    mark.className = "odd";
    mark.textContent = `U+${number}`;
    whole.append(mark);
    rest = rest.slice(at + 1);
  }
  whole.append(document.createTextNode(rest));
  return whole;
}

/** A text of any length: long ones show their beginning, and a button that shows more of them. */
function long(value) {
  const pre = el("pre", "", { dir: "auto" });
  const box = el("div", "", {}, pre);
  const head = beginning(value);
  pre.append(text(head));
  if (head.length === value.length) return box;
  let shown = 0;
  const button = el("button", "", { type: "button" });
  const label = () => {
    const lines = value.split("\n").length;
    const all = lines > FOLD_LINES ? `all ${lines.toLocaleString("en")} lines` : `all ${value.length.toLocaleString("en")} characters`;
    button.textContent = shown ? `Show more (${(value.length - shown).toLocaleString("en")} characters)` : `Show ${all}`;
  };
  button.addEventListener("click", () => {
    if (!shown) pre.replaceChildren();
    pre.append(text(value.slice(shown, shown + PIECE)));
    shown += PIECE;
    if (shown >= value.length) button.remove();
    else label();
  });
  label();
  box.append(button);
  return box;
}

function beginning(value) {
  let end = Math.min(value.length, FOLD_CHARACTERS);
  let line = -1;
  for (let count = 0; count < FOLD_LINES; count += 1) {
    line = value.indexOf("\n", line + 1);
    if (line < 0) return value.slice(0, end);
  }
  return value.slice(0, Math.min(end, line));
}

/** Text as it is, anything else as JSON. */
function asText(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

function oneLine(value, limit = 160) {
  const line = (typeof value === "string" ? value : JSON.stringify(value) ?? "").slice(0, 4 * limit).replace(/\s+/g, " ");
  return line.length > limit ? `${line.slice(0, limit - 1)}…` : line;
}

/** Milliseconds in the two units that tell most: 340 ms, 1.2 s, 1 min 34 s, 2 d 3 h. */
function took(milliseconds) {
  if (milliseconds < 999.5) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 59950) return `${(milliseconds / 1000).toFixed(1)} s`;
  let seconds = Math.round(milliseconds / 1000);
  const units = [];
  for (const [name, size] of [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]]) {
    units.push([Math.floor(seconds / size), name]);
    seconds %= size;
  }
  const first = units.findIndex(([amount]) => amount);
  return units.slice(first, first + 2).filter(([amount]) => amount).map(([amount, name]) => `${amount} ${name}`).join(" ");
}

function counted(amount, noun) {
  return `${amount.toLocaleString("en")} ${noun}${amount === 1 ? "" : "s"}`;
}

function clock(at, withDate = false) {
  const moment = new Date(trace.start + at);
  const time = moment.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  return withDate ? `${moment.toLocaleDateString([], { day: "numeric", month: "short", year: "numeric" })}, ${time}` : time;
}
