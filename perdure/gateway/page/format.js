/** Values as text: times, numbers, and foreign text without hidden characters. */

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udc7f]/g;

/** Text that a model, a tool or a person wrote, with hidden characters as `U+202E`. @param {unknown} text */
export function plain(text) {
  return String(text ?? "").replace(HIDDEN, (found) => {
    return `U+${/** @type {number} */ (found.codePointAt(0)).toString(16).toUpperCase().padStart(4, "0")}`;
  });
}

/** A span of seconds in at most two units: "2 h 14 min". @param {number} seconds */
export function span(seconds) {
  if (!(seconds >= 0)) return "0 s";
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const units = /** @type {[string, number][]} */ ([["d", 86400], ["h", 3600], ["min", 60], ["s", 1]]);
  let rest = Math.round(seconds);
  const parts = [];
  for (const [name, size] of units) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count || parts.length) parts.push(count ? `${count} ${name}` : "");
    if (parts.length === 2) break;
  }
  return parts.filter(Boolean).join(" ") || "0 s";
}

/** "16 Nov, 14:02" or, of today, "14:02". @param {number} seconds since the epoch */
export function moment(seconds) {
  const date = new Date(seconds * 1000);
  const time = date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday ? time : `${date.toLocaleDateString([], { day: "numeric", month: "short" })}, ${time}`;
}

/** "14:02:11". @param {number} seconds since the epoch */
export const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString();

/** 47512 → "47.5k". @param {number} count */
export function tokens(count) {
  return count < 1000 ? String(count) : `${(Number(count) / 1000).toFixed(1)}k`;
}

/** "$0.21"; "" for none. @param {number | null | undefined} dollars */
export function money(dollars) {
  if (dollars === null || dollars === undefined) return "";
  return `$${dollars >= 1 || dollars === 0 ? dollars.toFixed(2) : dollars.toPrecision(2)}`;
}

/** "1 run", "2 runs". @param {number} count @param {string} noun */
export const counted = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

/** `send_refund` → "Send refund". @param {string} name */
export function title(name) {
  const words = plain(name).replace(/[_-]+/g, " ").replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** The value of JSON text. Integers that a number would round are BigInts, where the browser has their digits. @param {string} text */
export function exact(text) {
  const digits = (/** @type {string} */ key, /** @type {unknown} */ value, /** @type {{source?: string} | undefined} */ at) =>
    Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(at?.source ?? "") ? BigInt(at?.source ?? 0) : value;
  return JSON.parse(text, /\d{16}/.test(text) ? /** @type {any} */ (digits) : undefined);
}
/** JSON has them as they are. */
Object.assign(BigInt.prototype, {
  /** @this {bigint} */
  toJSON() {
    return /** @type {any} */ (JSON).rawJSON?.(String(this)) ?? Number(this);
  },
});

/** Arguments in a line: `order: 88213, note: "…"`. @param {unknown} given JSON text or an object */
export function inLine(given) {
  let value = given;
  if (typeof given === "string") {
    try {
      value = exact(given);
    } catch {
      return plain(given);
    }
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) return plain(JSON.stringify(value));
  return plain(Object.entries(value).map(([name, item]) => `${name}: ${JSON.stringify(item)}`).join(", "));
}

/** JSON text, indented where it is JSON. @param {string} text */
export function indented(text) {
  try {
    return JSON.stringify(exact(text), null, 1);
  } catch {
    return text;
  }
}
