"""A trace as one HTML file: the tree of its spans with their times, and the attributes of each."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from html import escape
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan

from ..text import visible
from .describe import content_of, kind_of
from .text import rows

_MESSAGES = ("gen_ai.system_instructions", "gen_ai.input.messages", "gen_ai.output.messages")
_STYLE = """
:root { color-scheme: light dark; }
body { margin: 1rem; font: 14px/1.5 system-ui, sans-serif; }
summary { display: grid; grid-template-columns: 1fr 30%; white-space: pre; overflow: hidden; }
summary, pre { font: 13px/1.5 ui-monospace, monospace; }
pre { margin: 0 2rem 1rem; white-space: pre-wrap; overflow-wrap: anywhere; }
summary:hover { background: light-dark(#eef2f8, #262b33); }
svg { width: 100%; height: 1em; }
rect { fill: light-dark(#9a9ea6, #6f7682); }
.model { fill: #4d84d6; } .tool { fill: #3f9c6c; } .wait, .retry { fill: #c98a1b; }
.failed { fill: #d1493d; }
"""


def to_html(spans: Sequence[ReadableSpan], title: str) -> str:
    """Return the page, which loads and executes nothing.

    It shows texts by models and tools as text, and a message of the conversation once, with the
    first call that has it. Never raises.
    """
    start = min((span.start_time or 0 for span in spans), default=0)
    end = max((span.end_time or span.start_time or 0 for span in spans), default=start)
    seen: defaultdict[int, set[str]] = defaultdict(set)
    shown = "\n".join(
        f"<details><summary>{_text(row)}{_bar(span, start, max(end - start, 1))}</summary>"
        f"<pre>{_text(_attributes(span, seen))}</pre></details>"
        for span, row in rows(spans)
    )
    policy = f"default-src 'none'; style-src 'sha256-{_hash(_STYLE)}'"
    page = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{_text(title)}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<style>{_STYLE}</style><h1>{_text(title)}</h1>{shown or '<p>There are no spans.'}</html>"
    )
    # Half of a surrogate pair has no UTF-8 form.
    return page.encode("utf-8", errors="replace").decode()


def _text(text: str) -> str:
    return escape(visible(text))


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _bar(span: ReadableSpan, start: int, length: int) -> str:
    """Return the bar of the span's time, on an axis of 1000 units."""
    since = (span.start_time or 0) - start
    until = length if span.end_time is None else span.end_time - start
    kind = "failed" if not span.status.is_ok else kind_of(span)
    return (
        '<svg viewBox="0 0 1000 10" preserveAspectRatio="none">'
        f'<rect class="{kind}" x="{1000 * since // length}" y="2" height="6" '
        f'width="{max(1000 * (until - since) // length, 3)}"/></svg>'
    )


def _attributes(span: ReadableSpan, seen: defaultdict[int, set[str]]) -> str:
    """Return the attributes and events; `seen` has the shown messages by parent span."""
    known = seen[span.parent.span_id if span.parent else 0]
    values = {
        name: _new(content_of(value), known) if name in _MESSAGES else content_of(value)
        for name, value in (span.attributes or {}).items()
    }
    values |= {f"event {event.name}": dict(event.attributes or {}) for event in span.events}
    return "\n".join(f"{name}: {_value(value)}" for name, value in values.items() if value != [])


def _new(messages: Any, known: set[str]) -> list[Any]:
    """Return the messages that are not known, which then are."""
    found = []
    for each in messages if isinstance(messages, list) else [messages]:
        # An answer has a finish reason as output, and none as input.
        items = each.items() if isinstance(each, dict) else [("", each)]
        told = {name: value for name, value in items if name != "finish_reason"}
        if (key := json.dumps(told, sort_keys=True)) not in known:
            known.add(key)
            found.append(each)
    return found


def _value(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
