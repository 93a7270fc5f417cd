"""The page of one run as a file, which opens without a gateway and without a network."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import cast

from ..events import RunEvent, as_changes
from ..json_types import JsonObject
from ..options import CHANGED_BY_GO_ON
from ..protocol.run import RunInput
from ..redaction import redact
from ..trace.content import without_secrets

FOLDER = Path(__file__).parent / "page"
"""The files of the page."""
_ENTRY = "file.js"
_ANSWERS = "file_api.js"
"""Replaces `api.js` in a file."""
_LOADER = (
    'const script = document.createElement("script"); script.type = "module"; '
    f"script.src = 'data:text/javascript,import \"{_ENTRY}\"'; document.head.append(script);"
)
"""Scripts that a script of the page adds are trusted as it is (`strict-dynamic`)."""
_FROM = re.compile(r'(?:(?<=\bfrom ")|(?<=\bfrom"))[^"]+(?=")')
_WITHOUT_CONTENT = {*("name", "model", "kind", "run_id", "first_run_id", "callId", "usage")}
"""The fields of an event's data, besides numbers, that a file without content keeps."""


def import_map_of(document: str) -> str:
    """Return the import map of the page's document."""
    found: list[str] = re.findall(r'<script type="importmap">(.*?)</script>', document)
    return found[0]


def source_hash(text: str) -> str:
    """Return the text's source expression for a Content-Security-Policy: `'sha256-…'`."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def to_html(id: str, input: RunInput, events: Iterable[RunEvent], *, content: bool) -> str:
    """Return the page of the run with that id, input and events, which may include those of called
    runs.

    It contains the scripts and styles that it needs. Without `content`, it shows no messages,
    arguments and results. Secrets are left out. Never raises.
    """
    clean = partial(redact, agent=input.agent)
    runs: dict[str, list[JsonObject]] = {id: []}
    for event in events:
        runs.setdefault(event.run_id or id, []).append(_written(event, clean, content=content))
    setup = {
        "model": input.agent.model and input.agent.model.name,
        "options": input.options.model_dump(mode="json", include=set(CHANGED_BY_GO_ON)),
        "inputs": without_secrets(input.inputs, clean) if content else {},
        "calledBy": input.lineage and input.lineage.parent,
        "forks": [],
    }
    data = {"id": id, "agent": input.agent.name, "hasContent": content, "writtenAt": time.time()}
    return _document({**data, "runs": runs, "setup": setup})


def _written(event: RunEvent, clean: Callable[[str], str], *, content: bool) -> JsonObject:
    """Return the event of a run of its own as JSON, without secrets."""
    written = {**as_changes(event), "run_id": None}
    if not content:
        written["data"] = {
            name: value if name in _WITHOUT_CONTENT or not isinstance(value, str) else ""
            for name, value in written["data"].items()
            if name in _WITHOUT_CONTENT or not isinstance(value, dict | list)
        }
    return cast(JsonObject, without_secrets(written, clean))


def _document(data: JsonObject) -> str:
    style = (FOLDER / "style.css").read_text(encoding="utf-8")
    modules = {
        name: f"data:text/javascript;base64,{base64.b64encode(text.encode()).decode()}"
        for name, text in _modules().items()
    }
    import_map = json.dumps({"imports": modules})
    policy = (
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src {source_hash(style)}; "
        f"script-src 'strict-dynamic' {source_hash(import_map)} {source_hash(_LOADER)}"
    )
    # The text of a script ends at the first `</script`, and may have no half of a surrogate pair.
    content = json.dumps(data).replace("<", "\\u003c")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>perdure</title><style>{style}</style>\n"
        f'<script type="application/json" id="data">{content}</script>\n'
        f'<script type="importmap">{import_map}</script>\n'
        '</head><body><noscript>This page needs JavaScript.</noscript><div id="app"></div>\n'
        f"<script>{_LOADER}</script></body></html>\n"
    )


def _modules() -> dict[str, str]:
    """Return the source of each module that the file needs, by the name under which the others
    import it.
    """
    document = (FOLDER / "index.html").read_text(encoding="utf-8")
    vendored = json.loads(import_map_of(document))["imports"]
    found: dict[str, str] = {}
    left = [_ENTRY]
    while left:
        if (name := left.pop()) not in found:
            text = (FOLDER.parent / vendored.get(name, f"page/{name}")).read_text(encoding="utf-8")
            found[name] = _FROM.sub(partial(_absolute, name), text)
            left += _FROM.findall(found[name])
    return found


def _absolute(by: str, match: re.Match[str]) -> str:
    """Return the name of an imported module: modules at a data URL can't be relative."""
    name = match[0]
    if name.startswith("."):
        name = normpath(join(dirname(by), name))
    return _ANSWERS if name == "api.js" else name
