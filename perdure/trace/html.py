"""A trace as one HTML page that needs nothing else: timeline, conversation, and what each span says."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from datetime import datetime
from importlib import resources
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan

from .page_data import page_data

_SCRIPTS = ("dom.js", "axis.js", "strip.js", "rows.js", "inspector.js", "conversation.js", "main.js")


def to_html(spans: Sequence[ReadableSpan], title: str, *, now: datetime | None = None) -> str:
    """The page, which loads nothing and executes nothing but its own script; `now` is when the trace was read.

    What models and tools wrote is data in it, shown as text. Never raises.
    """
    style, script = _file("page.css"), "\n".join(['"use strict";', *map(_file, _SCRIPTS)])
    parts = {
        "policy": _policy(style, script),
        "style": style,
        "data": inert_json(page_data(spans, title, now=now)),
        "script": script,
    }
    head, *rest = _file("page.html").split("{{")
    return head + "".join(parts[part.partition("}}")[0]] + part.partition("}}")[2] for part in rest)


def inert_json(value: Any) -> str:
    """JSON that can stand in a page: nothing in it begins a tag, a comment or an entity."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    # Half of a surrogate pair has no form in UTF-8.
    return text.encode("utf-8", errors="replace").decode()


def _policy(style: str, script: str) -> str:
    """A content security policy by which nothing but this style and this script counts, and nothing is loaded."""
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "require-trusted-types-for 'script'; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _file(name: str) -> str:
    return (resources.files(__package__) / "page" / name).read_text(encoding="utf-8")
