/** `html` for templates, bound to Preact. */
import { h } from "preact";
import htm from "htm";

export const html = htm.bind(h);
