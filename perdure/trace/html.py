"""A trace as one self-contained HTML page: timeline, conversation, and the attributes of each
span.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import resources
from typing import Any, NamedTuple

from opentelemetry.sdk.trace import ReadableSpan

from .._version import __version__
from ..history.events import NANOSECONDS
from ..json_types import JsonObject, JsonView
from .describe import COST, content_of, is_open, kind_of, number, problem, tokens
from .text import SpanNode, span_id, tree, walk

FOLDED_SECONDS = 30
FOLDED_SHARE = 0.1
"""A pause is folded if it is longer than both: these seconds, and this share of the working
time."""

Interval = tuple[int, int]


class Segment(NamedTuple):
    """Part of the axis, in nanoseconds."""

    start: int
    end: int
    is_folded: bool


def segments(roots: Sequence[SpanNode], start: int, end: int) -> list[Segment]:
    """Divide the axis from start to end into adjacent segments: working times to scale, long pauses
    folded.
    """
    busy = _busy(roots, end)
    least = max(FOLDED_SECONDS * NANOSECONDS, FOLDED_SHARE * _length(busy))
    found: list[Segment] = []
    begun = reached = start
    for since, until in [*busy, (end, end)]:
        if since - reached > least:
            if reached > begun:
                found.append(Segment(begun, reached, False))
            found.append(Segment(reached, since, True))
            begun = since
        reached = until
    if begun < end or not found:
        found.append(Segment(begun, end, False))
    return found


def active_seconds(roots: Sequence[SpanNode], end: int) -> float:
    """Return the time in which models and tools worked, in all runs of the trace; parallel work
    counts once.
    """
    return _length(_busy(roots, end)) / NANOSECONDS


def _length(intervals: Sequence[Interval]) -> int:
    return sum(until - since for since, until in intervals)


def _busy(roots: Sequence[SpanNode], now: int) -> list[Interval]:
    """Return the disjoint times, in order, in which models and tools worked; the work of a span
    with children is theirs.
    """
    found: list[Interval] = []
    for since, until in sorted(
        _interval(node, now)
        for _, node in walk(roots)
        if not node.children and kind_of(node.span) not in ("agent", "wait", "retry")
    ):
        if found and since <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], until))
        else:
            found.append((since, until))
    return found


def _interval(node: SpanNode, now: int) -> Interval:
    since = node.span.start_time or 0
    return since, max(since, node.span.end_time if node.span.end_time is not None else now)


class PageConversation:
    """Finds the new messages of each model call, whose input is the whole conversation."""

    def __init__(self) -> None:
        self._shown: Counter[str] = Counter()
        self._system = ""

    def system(self, instructions: Any) -> Any:
        """Return the system instructions if they differ from the previous call's."""
        key = _key(instructions)
        if instructions is None or key == self._system:
            return None
        self._system = key
        return instructions

    def new_input(self, messages: Any) -> list[Any]:
        """Return the input that is new since the previous calls; tool results are shown with their
        tools.
        """
        given = messages if isinstance(messages, list) else []
        count: Counter[str] = Counter()
        found = []
        for message in given:
            key = _key(message)
            count[key] += 1
            if count[key] > self._shown[key] and not _is_result(message):
                found.append(message)
        self._shown |= count
        return found

    def new_output(self, messages: Any) -> list[Any]:
        """Return a call's output, and remember it: it is input to the next call."""
        given = messages if isinstance(messages, list) else []
        self._shown.update(_key(message) for message in given)
        return given


def _is_result(message: Any) -> bool:
    return isinstance(message, dict) and message.get("role") == "tool"


def _key(message: Any) -> str:
    if isinstance(message, dict):
        # An answer has a finish reason as output, and none as input.
        message = {name: value for name, value in message.items() if name != "finish_reason"}
    return json.dumps(message, sort_keys=True, default=str)


MILLI = 1_000_000
_INPUT, _OUTPUT, _SYSTEM = (
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
)
_ARGUMENTS, _RESULT = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"
CONTENT = (_INPUT, _OUTPUT, _SYSTEM, _ARGUMENTS, _RESULT)


def page_data(
    spans: Sequence[ReadableSpan], title: str, *, now: datetime | None = None
) -> JsonObject:
    """Return all data of the page; times are milliseconds from the start of the trace. Never
    raises.

    `now` is the time when the trace was read, by default this moment: open spans end there.
    """
    roots, made = tree(spans), now or datetime.now(UTC)
    read_at = int(made.timestamp() * 1000) * MILLI
    start = min((root.span.start_time or 0 for root in roots), default=read_at)
    last = max((span.end_time or span.start_time or 0 for span in spans), default=start)
    end = max(last, start + 1, read_at if any(span.end_time is None for span in spans) else 0)
    return {
        "title": title,
        "traceId": next((f"{span.context.trace_id:032x}" for span in spans if span.context), ""),
        "version": __version__,
        "made": made.isoformat(timespec="seconds"),
        "start": start / MILLI,
        "length": (end - start) / MILLI,
        "active": active_seconds(roots, end) * 1000,
        "segments": [
            [(part.start - start) / MILLI, (part.end - start) / MILLI, int(part.is_folded)]
            for part in segments(roots, start, end)
        ],
        "hasContent": any(name in (span.attributes or {}) for span in spans for name in CONTENT),
        "spans": _spans(roots, start, end),
    }


def _spans(roots: Sequence[SpanNode], start: int, end: int) -> list[JsonObject]:
    """Return the spans in the order of the tree; `parent` is an index into this list."""
    places: dict[int, int] = {}
    found: list[JsonObject] = []
    conversations: dict[int, PageConversation] = {}
    for depth, node in walk(roots):
        span, above = node.span, node.span.parent.span_id if node.span.parent else 0
        conversation = conversations.setdefault(above, PageConversation())
        places[span_id(span)] = len(found)
        found.append(
            {
                **({"parent": places[above]} if above in places else {}),
                "depth": depth,
                **_span(span, start, end),
                **_content(span, conversation),
            }
        )
    return found


def _span(span: ReadableSpan, start: int, end: int) -> JsonObject:
    attributes = {
        name: value for name, value in (span.attributes or {}).items() if name not in CONTENT
    }
    data = {
        "id": f"{span_id(span):016x}",
        "name": span.name,
        "kind": kind_of(span),
        "start": ((span.start_time or 0) - start) / MILLI,
        "end": ((span.end_time if span.end_time is not None else end) - start) / MILLI,
        "open": is_open(span),
        "problem": problem(span),
        "tokens": tokens(span),
        "cost": number(span, COST),
        "attributes": _plain(attributes),
        "events": [
            {
                "name": event.name,
                "at": (event.timestamp - start) / MILLI,
                "attributes": _plain(event.attributes),
            }
            for event in span.events
        ],
    }
    return {
        name: value for name, value in data.items() if value or value == 0 and value is not False
    }


def _content(span: ReadableSpan, conversation: PageConversation) -> JsonObject:
    """Return the messages of the span, without those already shown in earlier spans."""
    attributes = span.attributes or {}
    if kind_of(span) == "model":
        data = {
            "system": conversation.system(content_of(attributes.get(_SYSTEM))),
            "news": conversation.new_input(content_of(attributes.get(_INPUT))),
            "said": conversation.new_output(content_of(attributes.get(_OUTPUT))),
        }
    else:
        data = {
            "system": content_of(attributes.get(_SYSTEM)),
            "news": content_of(attributes.get(_INPUT)),
            "said": content_of(attributes.get(_OUTPUT)),
            "arguments": content_of(attributes.get(_ARGUMENTS)),
            "result": content_of(attributes.get(_RESULT)),
        }
    return {name: value for name, value in data.items() if value not in (None, [])}


def _plain(attributes: JsonView | None) -> JsonObject:
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in (attributes or {}).items()
    }


_SCRIPTS = (
    "dom.js",
    "axis.js",
    "strip.js",
    "rows.js",
    "inspector.js",
    "conversation.js",
    "main.js",
)


def to_html(spans: Sequence[ReadableSpan], title: str, *, now: datetime | None = None) -> str:
    """Return the page, which loads nothing and executes only its own script; `now` is the time when
    the trace was read.

    Text by models and tools is data in it, shown as text. Never raises.
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
    """Return JSON that is safe inside a page: nothing in it begins a tag, a comment or an
    entity.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    # Half of a surrogate pair has no UTF-8 form.
    return text.encode("utf-8", errors="replace").decode()


def _policy(style: str, script: str) -> str:
    """Return a content security policy that allows this style and this script only, and loads
    nothing.
    """
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "require-trusted-types-for 'script'; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _file(name: str) -> str:
    return (resources.files(__package__) / "page" / name).read_text(encoding="utf-8")
