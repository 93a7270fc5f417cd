"""Rebuilds the trace of a run, and of the runs it called, from the histories of their links."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

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
from ..history.events import decode, time_of
from ..history.link import RecordedLink
from ..payloads.failures import text_of
from ..protocol.names import STEER
from ..protocol.run import SteeringMessage
from ..protocol.search_attributes import SESSION
from ..trace_ids import TraceIds
from .describe import Describer, SpanEvent, SpanFacts, nanoseconds
from .describe_run import QUOTES_CONTENT, agent_span, link_spans
from .rebuilt_activities import activity_spans, add_pending, timer_spans
from .replay import NOT_REPLAYED, Replayed, replay_link


@dataclass
class TracedChild:
    """A run started by a call."""

    workflow_id: str
    run_id: str
    """Run id of its first link."""
    traceparent: str
    facts: SpanFacts
    """The span of the call."""


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
    run = RebuiltRun(client, describer)
    for link in links:
        await run.add(link)
    await run.finish(links)
    return run


class RebuiltRun:
    """The spans of one run, and the runs that it called."""

    def __init__(self, client: Client, describer: Describer) -> None:
        self.spans: list[SpanFacts] = []
        self.children: list[TracedChild] = []
        self._client = client
        self._describer = describer
        self._ids = describer.ids
        self._events: list[SpanEvent] = []
        self._agent: SpanFacts | None = None
        self._incomplete = ""

    @property
    def trace_id(self) -> int:
        """The id of its trace."""
        return self._ids.trace_id

    async def add(self, link: RecordedLink) -> None:
        """Add the spans of the next link."""
        if link.input.agent != self._describer.agent:
            self._describer = self._describer.with_agent(link.input.agent)
        if link.is_open:
            await add_pending(self._client, self._ids.workflow_id, link)
        known = await self._replay(link)
        spans = await activity_spans(
            self._client, self._describer, link, known.local_inputs if known else {}
        )
        spans += await timer_spans(self._client, self._describer, link)
        if link.closing_event:
            # Spans still open at the end of the link ended with it, as far as the history shows.
            for facts in spans:
                if facts.end is None:
                    facts.attributes["perdure.unfinished"] = True
        self.spans += spans
        if known is not None:
            self._add_own(known)
        if link.closing_event:
            over = time_of(link.closing_event)
            for facts in self.spans:
                facts.end = over if facts.end is None else facts.end
        self._events += await _steering_events(self._client, self._describer, link)

    def _add_own(self, known: Replayed) -> None:
        state = known.run.state
        events = state.events.all()
        self.spans += link_spans(self._describer, state, events)
        for call in state.delegated:
            if call.workflow_id:
                above = self._ids.child_traceparent(call.request.iteration, call.request.index)
                id = self._ids.tool(call.request.iteration, call.request.index)
                facts = next(each for each in self.spans if each.id == id)
                self.children.append(TracedChild(call.workflow_id, call.run_id, above, facts))
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

    async def finish(self, links: Sequence[RecordedLink]) -> None:
        """Add the span of the whole run, which comes first."""
        first, last = links[0], links[-1]
        facts = self._agent or self._plain(first)
        if first.input.carried:
            facts.attributes["perdure.trace.missing_links"] = first.input.carried.links
        if self._incomplete:
            facts.attributes["perdure.trace.incomplete"] = self._describer.text(self._incomplete)
        facts.start, facts.events = time_of(first.history[0]), self._events
        if first.input.carried and first.input.carried.loop.started_at:
            facts.start = nanoseconds(first.input.carried.loop.started_at)
        facts.end = time_of(last.closing_event) if last.closing_event else None
        await _add_outside_end(facts, self._client, last, self._describer)
        self.spans.insert(0, facts)

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
    spans: list[SpanFacts] = []
    runs = [await rebuild_run(chain, content=content)]
    trace_id, depth = runs[0].trace_id, 0
    while runs and depth < MAX_DEPTH:
        spans += [span for run in runs for span in run.spans]
        above, runs = runs if children else [], []
        for run in above:
            runs += await _rebuild_children(run, chain.client, content)
        depth += 1
    now, resource = time.time_ns(), trace_resource()
    built = [_readable_span(trace_id, facts, now, resource) for facts in spans]
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


def _readable_span(trace_id: int, facts: SpanFacts, now: int, resource: Resource) -> ReadableSpan:
    if facts.end is None:
        facts.attributes["perdure.unfinished"] = True
    start, above = min(facts.start, now), facts.parent_id
    code = StatusCode.UNSET if facts.error is None else StatusCode.ERROR
    return ReadableSpan(
        facts.name,
        context=_context(trace_id, facts.id, is_remote=False),
        parent=None if above is None else _context(trace_id, above, is_remote=True),
        resource=resource,
        attributes=facts.attributes,
        events=[Event(name, said, at) for name, at, said in facts.events],
        links=[Link(_context(*link, is_remote=True)) for link in facts.links],
        kind=facts.kind,
        status=Status(code, facts.error or None),
        start_time=start,
        end_time=max(start, now if facts.end is None else facts.end),
        instrumentation_scope=SCOPE,
    )


def _context(trace_id: int, span_id: int, *, is_remote: bool) -> SpanContext:
    return SpanContext(
        trace_id, span_id, is_remote=is_remote, trace_flags=TraceFlags(TraceFlags.SAMPLED)
    )
