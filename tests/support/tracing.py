"""Runs that are traced live, and how their spans are compared with those that are rebuilt."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.client import Client
from temporalio.worker import Worker

from ..histories.scenarios import Scene
from .stage import Stage

REBUILT_ONLY = frozenset({"perdure.worker", "perdure.unfinished", "perdure.trace.missing_links"})
"""The attributes that only a rebuilt trace has, as docs/operations/traces.md says."""
PRICES = {"openai/*": {"input": 1, "output": 10}}


class TracedStage(Stage):
    """Its workers export the spans of runs."""

    def __init__(self, client: Client, task_queue: str) -> None:
        super().__init__(client, task_queue)
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    @property
    def live(self) -> Sequence[ReadableSpan]:
        """What was exported; complete when the worker has ended."""
        return self.exporter.get_finished_spans()

    @asynccontextmanager
    async def worker(self, tools: Any = (), **more: Any) -> AsyncIterator[Worker]:
        async with super().worker(
            tools, **{"tracer_provider": self.provider, "prices": PRICES, **more}
        ) as worker:
            yield worker


class TracedScene(Scene):
    """A scenario whose run is traced."""

    def __init__(self, client: Client, name: str) -> None:
        super().__init__(client, name)
        self.traced = TracedStage(client, name)
        self.stage = self.traced


def outline(span: ReadableSpan) -> tuple[Any, ...]:
    """What a live span and a rebuilt one have in common: all but times, events, and what only
    history knows.
    """
    said = {
        name: value for name, value in (span.attributes or {}).items() if name not in REBUILT_ONLY
    }
    above = span.parent and span.parent.span_id
    links = [link.context.span_id for link in span.links]
    status = (span.status.status_code, span.status.description)
    return trace_id(span), span_id(span), above, span.name, span.kind, said, status, links


def trace_id(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.trace_id


def span_id(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


def require_one_trace(live: Sequence[ReadableSpan], rebuilt: Sequence[ReadableSpan]) -> None:
    """Every live span is in the rebuilt trace, as it is; and the rebuilt trace is one tree."""
    found = {span_id(span): span for span in rebuilt}
    assert len(found) == len(rebuilt), "two spans of one id"
    assert len({span_id(span) for span in live}) == len(live), "a span was exported twice"
    for span in live:
        assert span_id(span) in found, f"{span.name} is not in the rebuilt trace: {names(rebuilt)}"
        said, says = outline(span), outline(found[span_id(span)])
        assert said == says, f"{said}\n{says}"
    require_tree(rebuilt)


def require_tree(spans: Sequence[ReadableSpan]) -> None:
    """One trace, one root, and every other span below one of the spans; in the order of their
    starts.
    """
    assert len({trace_id(span) for span in spans}) == 1
    ids = {span_id(span) for span in spans}
    assert [
        span.name for span in spans if span.parent is None or span.parent.span_id not in ids
    ] == [spans[0].name]
    starts = [span.start_time or 0 for span in spans]
    assert starts == sorted(starts)
    assert all((span.end_time or 0) >= (span.start_time or 0) for span in spans)


def names(spans: Iterable[ReadableSpan]) -> list[str]:
    return [span.name for span in spans]
