"""Starts spans with given ids on the user's own OpenTelemetry provider: its sampler and exporters, our ids."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar

from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.sdk.trace import Tracer
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import (
    INVALID_SPAN,
    Link,
    NonRecordingSpan,
    NoOpTracer,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TracerProvider,
    set_span_in_context,
)

from .._version import __version__
from ..errors import ConfigurationError
from ..logs import get_logger
from ..trace_ids import TraceIds
from .facts import SpanFacts

_log = get_logger("perdure.runs")

SCOPE = "perdure"
"""The instrumentation scope of all spans."""

_given: ContextVar[tuple[int, int]] = ContextVar("_given")
"""Trace id and span id of the span that is about to start."""


class _GivenIds(RandomIdGenerator):
    def generate_trace_id(self) -> int:
        return _given.get()[0]

    def generate_span_id(self) -> int:
        return _given.get()[1]

    def is_trace_id_random(self) -> bool:
        return False


class LiveSpans:
    """Starts and ends spans on one provider. Raises `ConfigurationError` for one that is not of OpenTelemetry's SDK."""

    def __init__(self, provider: TracerProvider) -> None:
        tracer = provider.get_tracer(SCOPE, __version__)
        if not isinstance(tracer, Tracer | NoOpTracer):
            raise ConfigurationError(
                f"tracer_provider={provider!r}: expected an opentelemetry.sdk.trace.TracerProvider, with a span "
                "processor that exports"
            )
        if isinstance(tracer, Tracer):
            tracer.id_generator = _GivenIds()  # of this scope alone
        self._tracer = tracer
        self._exports: ThreadPoolExecutor | None = None

    def start(self, ids: TraceIds, facts: SpanFacts, start: int | None = None) -> Span:
        """The span, started at that time in nanoseconds since the epoch, or now. It is exported only by `end`.

        The run goes on without a span where the provider's sampler or processors fail: the log says so.
        """
        given = _given.set((ids.trace_id, facts.id))
        try:
            return self._tracer.start_span(
                facts.name,
                context=self._above(ids, facts.parent_id),
                kind=facts.kind,
                attributes=facts.attributes,
                links=[Link(SpanContext(*link, is_remote=True)) for link in facts.links],
                start_time=start,
            )
        except Exception:
            _log.exception("a span of run %s can't be started", ids.workflow_id)
            return INVALID_SPAN
        finally:
            _given.reset(given)

    def end(self, span: Span, facts: SpanFacts, end: int) -> None:
        """End the span at that time with what is known by then, and export it, from a thread: exporters may wait."""
        span.set_attributes(facts.attributes)
        if facts.error is not None:
            span.set_status(Status(StatusCode.ERROR, facts.error or None))
        self._exports = self._exports or ThreadPoolExecutor(1, thread_name_prefix="perdure traces")
        self._exports.submit(_ended, span, end)

    def close(self) -> None:
        """Return when every span that has ended was given to the provider's processors. It may be used again."""
        exports, self._exports = self._exports, None
        if exports is not None:
            exports.shutdown(wait=True)

    def _above(self, ids: TraceIds, parent: int | None) -> Context:
        """The parent, sampled if the run's trace is: each worker that sees a part of it decides alike."""
        if parent is None:
            return Context()
        sampled = TraceFlags(TraceFlags.SAMPLED if self._is_sampled(ids.trace_id) else TraceFlags.DEFAULT)
        above = SpanContext(ids.trace_id, parent, is_remote=True, trace_flags=sampled)
        return set_span_in_context(NonRecordingSpan(above), Context())

    def _is_sampled(self, trace_id: int) -> bool:
        if not isinstance(self._tracer, Tracer):
            return False
        root = self._tracer.sampler.should_sample(Context(), trace_id, "invoke_agent", SpanKind.INTERNAL, None, None)
        return root.decision is Decision.RECORD_AND_SAMPLE


def _ended(span: Span, end: int) -> None:
    try:
        span.end(end)
    except Exception:
        _log.exception("a span can't be exported")


@contextmanager
def current(span: Span) -> Iterator[None]:
    """The span is OpenTelemetry's current one for what the block calls: the user's own spans are below it."""
    token = otel_context.attach(set_span_in_context(span))
    try:
        yield
    finally:
        otel_context.detach(token)
