"""The trace of a run, rebuilt from the histories of its links and of the runs that it has called."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, Status, StatusCode, TraceFlags
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from .._version import __version__
from ..history.chain import Chain
from .facts import SpanFacts
from .rebuilt_run import RebuiltRun, Span, rebuilt_run

SCOPE = InstrumentationScope("perdure", __version__)
MAX_DEPTH = 100
"""Runs that call runs: far more than any run may."""


async def rebuild(chain: Chain, *, content: bool = False, children: bool = True) -> list[ReadableSpan]:
    """The spans of the run, in the order in which they started; `children` adds the runs that it has called.

    What goes on ends now, and says `perdure.unfinished`. Raises `RPCError` when the namespace does not keep the run,
    and `ConfigurationError` for values stored or encrypted so that the chain's client can't read them.
    """
    spans: list[Span] = []
    runs = [await rebuilt_run(chain, content=content)]
    depth = 0
    while runs and depth < MAX_DEPTH:
        spans += [span for run in runs for span in run.spans]
        runs = [called for run in runs for called in await _called(run, chain.client, content)] if children else []
        depth += 1
    now, resource = time.time_ns(), trace_resource()
    built = [_readable(span, now, resource) for span in spans]
    return sorted(built, key=lambda span: (span.start_time or 0, -(span.end_time or 0)))


async def _called(run: RebuiltRun, client: Client, content: bool) -> list[RebuiltRun]:
    """The runs that this one has called; one whose history is gone has no spans, and its call says so."""
    found: list[RebuiltRun] = []
    for call in run.called:
        try:
            chain = Chain(client, call.workflow_id, call.run_id)
            found.append(await rebuilt_run(chain, content=content, caller=call.traceparent))
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            call.facts.attributes["perdure.trace.missing"] = f"the run {call.workflow_id} is not kept any more"
    return found


def trace_resource() -> Resource:
    """Who the spans are from: as the environment says (`OTEL_SERVICE_NAME`), else perdure."""
    resource = Resource.create()
    if str(resource.attributes.get("service.name", "")).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": "perdure"}))
    return resource


def _readable(span: Span, now: int, resource: Resource) -> ReadableSpan:
    facts = span.facts
    if span.end is None:
        facts.attributes["perdure.unfinished"] = True
    start = min(span.start, now)
    return ReadableSpan(
        facts.name,
        context=_context(span.trace_id, facts.id, is_remote=False),
        parent=None if facts.parent_id is None else _context(span.trace_id, facts.parent_id, is_remote=True),
        resource=resource,
        attributes=facts.attributes,
        events=list(_events(span)),
        links=[Link(_context(*link, is_remote=True)) for link in facts.links],
        kind=facts.kind,
        status=_status(facts),
        start_time=start,
        end_time=max(start, now if span.end is None else span.end),
        instrumentation_scope=SCOPE,
    )


def _status(facts: SpanFacts) -> Status:
    return Status(StatusCode.UNSET) if facts.error is None else Status(StatusCode.ERROR, facts.error or None)


def _events(span: Span) -> Sequence[Event] | Iterator[Event]:
    return (Event(name, attributes, timestamp) for name, timestamp, attributes in sorted(span.events, key=_moment))


def _moment(event: tuple[str, int, dict[str, str | int]]) -> int:
    return event[1]


def _context(trace_id: int, span_id: int, *, is_remote: bool) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=is_remote, trace_flags=TraceFlags(TraceFlags.SAMPLED))
