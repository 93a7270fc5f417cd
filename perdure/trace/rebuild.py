"""Rebuilds the trace of a run, and of the runs it called, from the histories of their links."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, Status, StatusCode, TraceFlags
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from .._version import __version__
from ..errors import ConfigurationError
from ..history.chain import Chain
from ..history.events import NANOSECONDS, decode, time_of
from ..history.link import RecordedLink
from ..payloads.failures import text_of
from ..protocol.names import STEER
from ..protocol.run import SteeringMessage
from ..protocol.search_attributes import SESSION
from ..trace_ids import TraceIds
from .describe import Describer, SpanFacts
from .describe_run import QUOTES_CONTENT, agent_span, link_spans
from .rebuilt_activities import activity_spans, add_pending, timer_spans
from .replay import NOT_REPLAYED, Replayed, replay_link

SpanEvent = tuple[str, int, dict[str, str | int]]


@dataclass
class Span:
    """Span with its times, in nanoseconds since the epoch; `end` is None while it is open."""

    trace_id: int
    facts: SpanFacts
    start: int
    end: int | None
    events: list[SpanEvent] = field(default_factory=list)


@dataclass
class TracedChild:
    """A run started by a call."""

    workflow_id: str
    run_id: str
    """Run id of its first link."""
    traceparent: str
    facts: SpanFacts
    """The span of the call."""


@dataclass
class RebuiltRun:
    """Spans of one run, and the runs that it called."""

    spans: list[Span]
    children: list[TracedChild]


async def rebuild_run(chain: Chain, *, content: bool, caller: str = "") -> RebuiltRun:
    """Rebuild one run; `caller` is its place in its caller's trace, for a run that has not recorded
    it.

    Raises as `rebuild` does.
    """
    links = [link async for link in chain.links()]
    client, first = chain.client, links[0].input
    recorded = first.lineage.trace if first.lineage else ""
    ids = TraceIds.of(client.namespace, chain.workflow_id, await chain.origin(), recorded or caller)
    session = first.session.session if first.session else ""
    return await rebuild_links(
        client, Describer(ids, first.agent, with_content=content, session=session), links
    )


async def rebuild_links(
    client: Client, describer: Describer, links: Sequence[RecordedLink]
) -> RebuiltRun:
    """Rebuild one run from its links, already read. Raises as `rebuild` does."""
    run = _Run(client, describer)
    for link in links:
        await run.add(link)
    return await run.finish(links)


class _Run:
    def __init__(self, client: Client, describer: Describer) -> None:
        self._client = client
        self._describer = describer
        self._ids = describer.ids
        self._built = RebuiltRun([], [])
        self._events: list[SpanEvent] = []
        self._agent: SpanFacts | None = None
        self._incomplete = ""

    async def add(self, link: RecordedLink) -> None:
        if link.input.agent != self._describer.agent:
            self._describer = self._describer.with_agent(link.input.agent)
        if link.is_open:
            await add_pending(self._client, self._ids.workflow_id, link)
        known = await self._replay(link)
        over = time_of(link.closing_event) if link.closing_event else None
        spans = await activity_spans(
            self._client, self._describer, link, known.local_inputs if known else {}
        )
        spans += await timer_spans(self._client, self._describer, link)
        for facts, start, end, events in spans:
            # Spans still open at the end of the link ended with it, as far as the history shows.
            if end is None and over is not None:
                facts.attributes["perdure.unfinished"] = True
            self._built.spans.append(Span(self._ids.trace_id, facts, start, end or over, events))
        if known is not None:
            self._add_own(known, over)
        self._events += [
            *await _steering_events(self._client, self._describer, link),
            *_continuation(link),
        ]

    def _add_own(self, known: Replayed, over: int | None) -> None:
        state = known.run.state
        events = state.events.all()
        for timed in link_spans(self._describer, state, events):
            end = over if timed.until is None else int(timed.until * NANOSECONDS)
            span = Span(self._ids.trace_id, timed.facts, int(timed.since * NANOSECONDS), end)
            self._built.spans.append(span)
        for call in state.delegated:
            if call.workflow_id:
                above = self._ids.child_traceparent(call.request.iteration, call.request.index)
                id = self._ids.tool(call.request.iteration, call.request.index)
                facts = next(span.facts for span in self._built.spans if span.facts.id == id)
                self._built.children.append(
                    TracedChild(call.workflow_id, call.run_id, above, facts)
                )
        session = known.info.typed_search_attributes.get(SESSION)
        self._agent = agent_span(self._describer, state, events, session=session)

    async def _replay(self, link: RecordedLink) -> Replayed | None:
        converter, namespace = self._client.data_converter, self._client.namespace
        try:
            return await replay_link(
                self._ids.workflow_id, link.history, converter, namespace=namespace
            )
        except NOT_REPLAYED as error:
            self._incomplete = (
                f"link {link.run_id} can't be replayed by this version of perdure: {error}"[:500]
            )
            return None

    async def finish(self, links: Sequence[RecordedLink]) -> RebuiltRun:
        """Add the span of the whole run, which comes first."""
        first, last = links[0], links[-1]
        facts = self._agent or self._plain(first)
        if first.input.carried:
            facts.attributes["perdure.trace.missing_links"] = first.input.carried.links
        if self._incomplete:
            facts.attributes["perdure.trace.incomplete"] = self._describer.text(self._incomplete)
        start = time_of(first.history[0])
        if first.input.carried and first.input.carried.loop.started_at:
            start = int(first.input.carried.loop.started_at * NANOSECONDS)
        end = time_of(last.closing_event) if last.closing_event else None
        await _add_outside_end(facts, self._client, last, self._describer)
        self._built.spans.insert(0, Span(self._ids.trace_id, facts, start, end, self._events))
        return self._built

    def _plain(self, link: RecordedLink) -> SpanFacts:
        name = self._describer.agent.name
        return SpanFacts(
            f"invoke_agent {name}" if name else "invoke_agent",
            self._ids.agent,
            self._ids.parent_id,
            {"gen_ai.operation.name": "invoke_agent", **self._describer.of_model},
        )


async def _steering_events(
    client: Client, describer: Describer, link: RecordedLink
) -> list[SpanEvent]:
    """Return an event for each message sent to the run."""
    events: list[SpanEvent] = []
    for signal in link.work.signals:
        if signal.type != STEER:
            continue
        try:
            message = await decode(client, signal.input, SteeringMessage)
        except (ValueError, IndexError, ConfigurationError):
            continue  # the run has dropped it, too
        said: dict[str, str | int] = {"perdure.steering.messages": 1 + len(message.further)}
        if message.by:
            said["perdure.steering.by"] = describer.text(message.by)
        if describer.with_content:
            said["perdure.steering.text"] = describer.text(
                "\n".join([message.text, *message.further])
            )
        events.append(("steering", signal.scheduled, said))
    return events


def _continuation(link: RecordedLink) -> list[SpanEvent]:
    if link.closing_event is None or link.next_run_id is None:
        return []
    said: dict[str, str | int] = {
        "perdure.link.from": link.run_id,
        "perdure.link.to": link.next_run_id,
    }
    return [("continued_as_new", time_of(link.closing_event), said)]


_OUTSIDE = {
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED: "terminated",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT: "timed_out",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED: "cancelled",
}


async def _add_outside_end(
    facts: SpanFacts, client: Client, last: RecordedLink, describer: Describer
) -> None:
    """Add an end that the run itself could not record, or that the replay did not reach."""
    closing = last.closing_event
    if closing is None or facts.error is not None:
        return
    if closing.event_type in _OUTSIDE:
        reason = closing.workflow_execution_terminated_event_attributes.reason
        facts.set_error(_OUTSIDE[closing.event_type], describer.text(reason))
    elif closing.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
        failure = closing.workflow_execution_failed_event_attributes.failure
        kind = failure.application_failure_info.type
        is_shown = describer.with_content or kind not in QUOTES_CONTENT
        text = describer.text(await text_of(client.data_converter, failure)) if is_shown else ""
        facts.set_error(kind or "_OTHER", text)


SCOPE = InstrumentationScope("perdure", __version__)
MAX_DEPTH = 100
"""Depth of nested runs; far above the limit for runs."""


async def rebuild(
    chain: Chain, *, content: bool = False, children: bool = True
) -> list[ReadableSpan]:
    """Rebuild the spans of the run, in the order of their start; `children` adds the runs that it
    called.

    Open spans end now, with the attribute `perdure.unfinished`. Raises `RPCError` if the namespace
    does not keep the run, and `ConfigurationError` for values whose storage or encryption the
    chain's client can't read.
    """
    spans: list[Span] = []
    runs = [await rebuild_run(chain, content=content)]
    depth = 0
    while runs and depth < MAX_DEPTH:
        spans += [span for run in runs for span in run.spans]
        above, runs = runs if children else [], []
        for run in above:
            runs += await _rebuild_children(run, chain.client, content)
        depth += 1
    now, resource = time.time_ns(), trace_resource()
    built = [_readable_span(span, now, resource) for span in spans]
    return sorted(built, key=lambda span: (span.start_time or 0, -(span.end_time or 0)))


async def _rebuild_children(run: RebuiltRun, client: Client, content: bool) -> list[RebuiltRun]:
    """Rebuild the runs called by this one; a run without a history has no spans, and its call
    records that.
    """
    found: list[RebuiltRun] = []
    for call in run.children:
        try:
            chain = Chain(client, call.workflow_id, call.run_id)
            found.append(await rebuild_run(chain, content=content, caller=call.traceparent))
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            call.facts.attributes["perdure.trace.missing"] = (
                f"the run {call.workflow_id} is not kept any more"
            )
    return found


def trace_resource() -> Resource:
    """Return the sender of the spans: by the environment (`OTEL_SERVICE_NAME`), else perdure."""
    resource = Resource.create()
    if str(resource.attributes.get("service.name", "")).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": "perdure"}))
    return resource


def _readable_span(span: Span, now: int, resource: Resource) -> ReadableSpan:
    facts = span.facts
    if span.end is None:
        facts.attributes["perdure.unfinished"] = True
    start = min(span.start, now)
    return ReadableSpan(
        facts.name,
        context=_context(span.trace_id, facts.id, is_remote=False),
        parent=None
        if facts.parent_id is None
        else _context(span.trace_id, facts.parent_id, is_remote=True),
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
    return (
        Status(StatusCode.UNSET)
        if facts.error is None
        else Status(StatusCode.ERROR, facts.error or None)
    )


def _events(span: Span) -> Sequence[Event] | Iterator[Event]:
    return (
        Event(name, attributes, timestamp)
        for name, timestamp, attributes in sorted(span.events, key=_moment)
    )


def _moment(event: tuple[str, int, dict[str, str | int]]) -> int:
    return event[1]


def _context(trace_id: int, span_id: int, *, is_remote: bool) -> SpanContext:
    return SpanContext(
        trace_id, span_id, is_remote=is_remote, trace_flags=TraceFlags(TraceFlags.SAMPLED)
    )
