"""What the page of a trace is made of: plain JSON, in which no message is repeated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan

from .._version import __version__
from .axis import active_seconds, segments
from .said import Conversation
from .shown import COST, content_of, is_open, kind_of, number, problem, tokens
from .tree import Node, span_id, tree, walk

MILLI = 1_000_000
_INPUT, _OUTPUT, _SYSTEM = "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"
_ARGUMENTS, _RESULT = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"
CONTENT = (_INPUT, _OUTPUT, _SYSTEM, _ARGUMENTS, _RESULT)


def page_data(spans: Sequence[ReadableSpan], title: str, *, now: datetime | None = None) -> dict[str, Any]:
    """Everything that the page shows; times are milliseconds from the start of the trace. Never raises.

    `now` is when the trace was read, by default this moment: where spans that have not ended are cut.
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


def _spans(roots: Sequence[Node], start: int, end: int) -> list[dict[str, Any]]:
    """The spans in the order of the tree; a parent is the number of its place in this list."""
    places: dict[int, int] = {}
    found: list[dict[str, Any]] = []
    conversations: dict[int, Conversation] = {}
    for depth, node in walk(roots):
        span, above = node.span, node.span.parent.span_id if node.span.parent else 0
        conversation = conversations.setdefault(above, Conversation())
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


def _span(span: ReadableSpan, start: int, end: int) -> dict[str, Any]:
    attributes = {name: value for name, value in (span.attributes or {}).items() if name not in CONTENT}
    told = {
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
            {"name": event.name, "at": (event.timestamp - start) / MILLI, "attributes": _plain(event.attributes)}
            for event in span.events
        ],
    }
    return {name: value for name, value in told.items() if value or value == 0 and value is not False}


def _content(span: ReadableSpan, conversation: Conversation) -> dict[str, Any]:
    """What was said in the span, without what spans before it have shown already."""
    attributes = span.attributes or {}
    if kind_of(span) == "model":
        told = {
            "system": conversation.system(content_of(attributes.get(_SYSTEM))),
            "news": conversation.news(content_of(attributes.get(_INPUT))),
            "said": conversation.said(content_of(attributes.get(_OUTPUT))),
        }
    else:
        told = {
            "system": content_of(attributes.get(_SYSTEM)),
            "news": content_of(attributes.get(_INPUT)),
            "said": content_of(attributes.get(_OUTPUT)),
            "arguments": content_of(attributes.get(_ARGUMENTS)),
            "result": content_of(attributes.get(_RESULT)),
        }
    return {name: value for name, value in told.items() if value not in (None, [])}


def _plain(attributes: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in (attributes or {}).items()}
