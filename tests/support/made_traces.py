"""Traces made by hand, of any size, for tests of the forms in which a trace leaves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from perdure.json_types import JsonView

START = 1_790_000_000_123_456_789
TRACE_ID = 0x0AF7651916CD43DD8448EB211C80319C
RESOURCE = Resource({"service.name": "perdure"})
SCOPE = InstrumentationScope("perdure", "0.0")


class Made:
    """A trace to which spans are added; times are seconds from its start."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def add(
        self,
        name: str,
        start: float,
        end: float | None,
        parent: ReadableSpan | None = None,
        *,
        error: str | None = None,
        events: Mapping[str, str] | None = None,
        kind: str = "INTERNAL",
        attributes: JsonView | None = None,
    ) -> ReadableSpan:
        """A span; an attribute that is not a scalar becomes JSON."""
        named = {"gen_ai.operation.name": name.partition(" ")[0], **(attributes or {})}
        named |= {"error.type": error} if error else {}
        span = ReadableSpan(
            name,
            context=_context(len(self.spans) + 1),
            parent=parent.context if parent else None,
            resource=RESOURCE,
            instrumentation_scope=SCOPE,
            attributes={key: _scalar(value) for key, value in named.items()},
            events=[
                Event(text, {"by": "Ann"}, _at(float(at))) for at, text in (events or {}).items()
            ],
            kind=SpanKind[kind],
            status=Status(StatusCode.ERROR, f"{error} happened") if error else Status(),
            start_time=_at(start),
            end_time=None if end is None else _at(end),
        )
        self.spans.append(span)
        return span


def a_refund() -> list[ReadableSpan]:
    """A run with a retry, a sub-agent, a failed tool, a wait of two days for a person, and
    content; `made_traces.json` has its spans.
    """
    text = Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
    made = Made()
    for each in json.loads(text):
        parent = made.spans[each.pop("parent")] if "parent" in each else None
        made.add(parent=parent, **each)
    return made.spans


def _context(number: int) -> SpanContext:
    return SpanContext(TRACE_ID, 0x1000 + number, is_remote=False, trace_flags=TraceFlags(1))


def _at(seconds: float) -> int:
    return START + round(seconds * 1000) * 1_000_000


def _scalar(value: Any) -> Any:
    return value if isinstance(value, (str, int, float)) else json.dumps(value)
