/** Forms made of a JSON Schema or of the inputs in an agent's file. */
import { html } from "../html.js";
import { exact, plain, title } from "../format.js";

const KINDS = /** @type {Record<string, string>} */ ({
  string: "string", integer: "integer", number: "number", float: "number", boolean: "boolean", array: "array", object: "object",
});
const FEW = 4;
/** Kinds of values that a field does not show. */
const NAMES = /** @type {Record<string, string>} */ ({ integer: "whole number", number: "number", json: "JSON" });

/** An input of an agent's file as a JSON Schema. @param {any} input */
export function schemaOf(input) {
  return {
    type: KINDS[input.kind] ?? "string",
    description: input.description,
    default: input.default ?? undefined,
    enum: input.enumValues ?? undefined,
  };
}

/** The kind of a field. @param {any} schema */
export function kindOf(schema) {
  if (Array.isArray(schema?.enum)) return "enum";
  const types = [schema?.type].flat().filter((each) => each && each !== "null");
  return types.length === 1 && ["string", "integer", "number", "boolean"].includes(types[0]) ? types[0] : "json";
}

/** The text that a field shows for a value. @param {any} schema @param {unknown} value */
export function written(schema, value) {
  if (value === undefined || value === null) return "";
  return kindOf(schema) === "json" ? JSON.stringify(value, null, 1) : String(value);
}

/**
 * The value of a field's text, or what is wrong with it.
 * @param {any} schema @param {string} text @param {boolean} isRequired
 * @returns {{value?: unknown, wrong?: string}}
 */
export function read(schema, text, isRequired) {
  const kind = kindOf(schema);
  if (kind === "boolean" && (text || isRequired)) return { value: text === "true" };
  if (text === "" && (kind !== "string" || isRequired)) return isRequired ? { wrong: "Needed." } : {};
  if (kind === "string" || kind === "enum") {
    const found = kind === "enum" ? schema.enum.find((/** @type {unknown} */ each) => String(each) === text) : text;
    return found === undefined ? { wrong: "Not one of the choices." } : { value: found };
  }
  if (kind === "integer") return /^[+-]?\d+$/.test(text.trim()) ? { value: exact(text.trim().replace(/^\+?(-?)0*(?=\d)/, "$1")) } : { wrong: "Not a whole number." };
  if (kind === "number") return text.trim() && Number.isFinite(Number(text)) ? { value: Number(text) } : { wrong: "Not a number." };
  try {
    return { value: exact(text) };
  } catch {
    return { wrong: "Not JSON." };
  }
}

/**
 * One field. `original` shows what the model asked for, once it differs.
 * @param {{name: string, schema: any, text: string, wrong?: string, original?: string, isRequired?: boolean,
 *   onText: (text: string) => void, onLeave?: () => void}} props
 */
export function Field({ name, schema, text, wrong, original, isRequired, onText, onLeave }) {
  const id = `field-${name}`;
  const described = `${id}-about`;
  const input = (/** @type {any} */ event) => onText(event.currentTarget.value);
  const common = { id, value: text, onInput: input, onBlur: onLeave, "aria-describedby": described, "aria-invalid": Boolean(wrong) };
  const kind = kindOf(schema);
  let control;
  if (kind === "boolean")
    control = html`<input type="checkbox" id=${id} checked=${text === "true"} aria-describedby=${described}
      onChange=${(/** @type {any} */ event) => onText(String(event.currentTarget.checked))} />`;
  else if (kind === "enum" && schema.enum.length <= FEW)
    control = html`<div role="radiogroup" aria-labelledby=${`${id}-label`} class="radios">
      ${schema.enum.map((/** @type {unknown} */ each) => html`<label>
        <input type="radio" name=${id} checked=${text === String(each)} onChange=${() => onText(String(each))} /> ${plain(each)}
      </label>`)}
    </div>`;
  else if (kind === "enum")
    control = html`<select ...${common}>
      ${!isRequired && html`<option value=""></option>`}
      ${schema.enum.map((/** @type {unknown} */ each) => html`<option value=${String(each)}>${plain(each)}</option>`)}
    </select>`;
  else if (kind === "integer" || kind === "number") control = html`<input type="text" inputmode="decimal" ...${common} />`;
  else control = html`<textarea rows=${Math.min(8, Math.max(kind === "json" ? 3 : 1, text.split("\n").length))} class=${kind === "json" ? "mono" : ""} ...${common}></textarea>`;
  const isChanged = original !== undefined && original !== text;
  return html`<div class="field">
    <label for=${id} id=${`${id}-label`}>${title(name)} <span class="needed">${[NAMES[kind] ?? "", isRequired ? "needed" : ""].filter(Boolean).join(", ")}</span></label>
    <div>
      ${control}
      <div id=${described} class="about">
        ${schema?.description ? plain(schema.description) : ""}
        ${wrong && html`<span class="problem"> ${wrong}</span>`}
        ${isChanged && html`<span class="changed"> was <del>${plain(original)}</del>,${" "}
          <button class="quiet" type="button" onClick=${() => onText(original)}>undo</button></span>`}
      </div>
    </div>
  </div>`;
}
