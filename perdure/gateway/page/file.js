/** The page of one run in a file: `perdure trace --html`. */
import { render } from "preact";
import { file } from "./file_api.js";
import { moment, plain } from "./format.js";
import { html } from "./html.js";
import { address } from "./state.js";
import { Run } from "./views/run.js";

function File() {
  const id = address.value.path[1] ?? file.id;
  return html`<header class="bar"><span class="brand">perdure</span>
      <span class="about">as it was at ${moment(file.writtenAt)}</span>
      ${id !== file.id && html`<a href="#/">The run that called it</a>`}</header>
    ${!file.hasContent && html`<p class="note held">This file shows when and how, not what: <code>perdure trace --html FILE --content</code> writes messages, arguments and results, too.</p>`}
    <${Run} key=${id} id=${id} />`;
}

document.title = plain(file.id);
render(html`<${File} />`, /** @type {HTMLElement} */ (document.getElementById("app")));
