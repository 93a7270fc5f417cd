"""Exports the spans of runs while they run, with perdure's ids, on the user's own OpenTelemetry
provider.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

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
from temporalio import activity, workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError, FailureError
from temporalio.service import RPCError
from temporalio.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
    ExecuteWorkflowInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)
from temporalio.workflow import ContinueAsNewError

from .._version import __version__
from ..activities.failures import known_starts, superseded
from ..activities.run_cache import KnownRun, RunCache
from ..conversation import ConversationRef, DigestMismatchError
from ..errors import ConfigurationError
from ..messages import Message
from ..protocol import activities
from ..protocol.search_attributes import SESSION
from ..redaction import get_logger
from ..tool_calls import PreparedRun
from ..trace_ids import TraceIds
from ..workflows.agent_run import AgentRun
from .content import captures_content
from .describe import Describer, End, SpanFacts, Tries, described_error, nanoseconds
from .describe_run import agent_span, link_spans

SCOPE = "perdure"
"""The instrumentation scope of all spans."""

_given: ContextVar[tuple[int, int]] = ContextVar("_given")
"""Trace id and span id for the next span."""


class _GivenIds(RandomIdGenerator):
    def generate_trace_id(self) -> int:
        return _given.get()[0]

    def generate_span_id(self) -> int:
        return _given.get()[1]

    def is_trace_id_random(self) -> bool:
        return False


class LiveSpans:
    """Starts and ends spans on one provider. Raises `ConfigurationError` for a provider that is not
    OpenTelemetry's SDK's.
    """

    def __init__(self, provider: TracerProvider) -> None:
        tracer = provider.get_tracer(SCOPE, __version__)
        if not isinstance(tracer, Tracer | NoOpTracer):
            raise ConfigurationError(
                f"tracer_provider={provider!r}: expected an "
                "opentelemetry.sdk.trace.TracerProvider, with a span processor that exports"
            )
        if isinstance(tracer, Tracer):
            tracer.id_generator = _GivenIds()  # of this scope alone
        self._tracer = tracer
        self._exports: ThreadPoolExecutor | None = None

    def start(self, ids: TraceIds, facts: SpanFacts, start: int | None = None) -> Span:
        """Start the span at that time in nanoseconds since the epoch, or now. Only `end` exports
        it.

        If the provider's sampler or processors fail, the run continues without a span and logs the
        error.
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
        """End the span at that time with all known facts, and export it from a thread: exporters
        may block.
        """
        span.set_attributes(facts.attributes)
        if facts.error is not None:
            span.set_status(Status(StatusCode.ERROR, facts.error or None))
        self._exports = self._exports or ThreadPoolExecutor(1, thread_name_prefix="perdure traces")
        self._exports.submit(_end, span, end)

    def close(self) -> None:
        """Wait until the provider's processors have all ended spans. The object stays usable."""
        exports, self._exports = self._exports, None
        if exports is not None:
            exports.shutdown(wait=True)

    def _above(self, ids: TraceIds, parent: int | None) -> Context:
        """Return the parent, sampled if the run's trace is, so that all workers of the run decide
        alike.
        """
        if parent is None:
            return Context()
        sampled = TraceFlags(
            TraceFlags.SAMPLED if self._is_sampled(ids.trace_id) else TraceFlags.DEFAULT
        )
        above = SpanContext(ids.trace_id, parent, is_remote=True, trace_flags=sampled)
        return set_span_in_context(NonRecordingSpan(above), Context())

    def _is_sampled(self, trace_id: int) -> bool:
        if not isinstance(self._tracer, Tracer):
            return False
        root = self._tracer.sampler.should_sample(
            Context(), trace_id, "invoke_agent", SpanKind.INTERNAL, None, None
        )
        return root.decision is Decision.RECORD_AND_SAMPLE


def _end(span: Span, end: int) -> None:
    try:
        span.end(end)
    except Exception:
        _log.exception("a span can't be exported")


@contextmanager
def current(span: Span) -> Iterator[None]:
    """Make the span OpenTelemetry's current one in the block, so that the user's own spans become
    its children.
    """
    token = otel_context.attach(set_span_in_context(span))
    try:
        yield
    finally:
        otel_context.detach(token)


Describe = Callable[[End], SpanFacts]


class TracedActivities(ActivityInboundInterceptor):
    """Traces model calls, tools, guardrails and compactors, each with its span as OpenTelemetry's
    current one.
    """

    def __init__(
        self,
        next: ActivityInboundInterceptor,
        spans: LiveSpans,
        runs: RunCache,
        *,
        with_content: bool,
    ) -> None:
        super().__init__(next)
        self._spans = spans
        self._runs = runs
        self._with_content = with_content

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        """Called by the worker. Raises the activity's errors."""
        begun = await self._start_span(input)
        if begun is None:
            return await super().execute_activity(input)
        span, describe = begun
        try:
            with current(span):
                result = await super().execute_activity(input)
        except BaseException as error:
            await self._end(span, describe, error)
            raise
        if not (isinstance(result, PreparedRun) and result.messages is not None):
            await self._end(span, describe, result)
        return result

    async def _start_span(self, input: ExecuteActivityInput) -> tuple[Span, Describe] | None:
        """Start the activity's span; None for an activity without one, and for an unknown run."""
        try:
            asked = _traced_input(input)
            if asked is None:
                return None
            ids, describe = await self._describe(await self._runs.current(), asked)
            return self._spans.start(ids, describe(None)), describe
        except (RPCError, DigestMismatchError, ConfigurationError) as error:
            _log.debug(
                "an activity of run %s is not traced: %s", activity.info().workflow_id, error
            )
        except Exception:
            # An error here must not end the activity.
            _log.exception("an activity of run %s can't be traced", activity.info().workflow_id)
        return None

    async def _end(self, span: Span, describe: Describe, end: End) -> None:
        try:
            await self._export(span, describe, end, time.time_ns())
        except Exception:
            _log.exception("a span of run %s can't be exported", activity.info().workflow_id)

    async def _export(self, span: Span, describe: Describe, end: End, ended: int) -> None:
        """Export the span, unless another attempt continues."""
        details = activity.cancellation_details()
        is_error = isinstance(end, BaseException)
        if details is not None and (is_error or not details.cancel_requested):
            if await superseded():
                return
            end = asyncio.CancelledError()  # in any case, the run has not waited for it
        elif is_error and (not _is_final(end) or described_error(end)[0] in activities.REFUSED):
            return
        self._spans.end(span, describe(end), ended)

    async def _describe(self, run: KnownRun, asked: Any) -> tuple[TraceIds, Describe]:
        info = activity.info()
        assert info.workflow_id is not None
        assert info.workflow_run_id is not None
        ids = TraceIds.of(info.namespace, info.workflow_id, run.first_run_id, run.caller)
        describer = Describer(
            ids, run.recorded_agent, with_content=self._with_content, session=run.session
        )
        place = (info.workflow_run_id, info.activity_id)
        offer = getattr(asked, "offer", None)
        attempt = known_starts(offer).starts + 1 if offer else info.attempt
        tries = Tries(attempt, info.attempt - attempt)
        match asked:
            case activities.ModelInput():
                said = await self._messages(asked.conversation) if self._with_content else []
                return ids, lambda end: describer.chat(asked, end, tries, said)
            case activities.ToolInput():
                tool = partial(describer.tool, earlier=asked.earlier, tries=tries)
                return ids, lambda end: tool(asked.request, end)
            case activities.JudgeInput():
                return ids, lambda end: describer.judge(asked, end, *place)
            case _:
                return ids, lambda end: describer.compact(asked, end, *place, tries)

    async def _messages(self, reference: ConversationRef) -> list[Message]:
        try:
            return (await self._runs.messages_at(reference))[1]
        except (RPCError, DigestMismatchError, ConfigurationError):
            return []


_TRACED = (
    activities.ModelInput,
    activities.ToolInput,
    activities.JudgeInput,
    activities.CompactInput,
)


def _traced_input(input: ExecuteActivityInput) -> Any:
    """Return the argument of an activity that has a span; None for any other."""
    kind = activity.info().activity_type
    argument = input.args[0] if len(input.args) == 1 else None
    is_tool = kind == activities.RUN_TOOL or kind.startswith(activities.TOOL_PREFIX)
    if not (is_tool or kind in (activities.CALL_MODEL, activities.JUDGE, activities.COMPACT)):
        return None
    if (
        is_tool
        and isinstance(argument, list | tuple)
        and len(argument) == 1
        and isinstance(argument[0], RawValue)
    ):
        return activity.payload_converter().from_payload(argument[0].payload, activities.ToolInput)
    return argument if isinstance(argument, _TRACED) else None


def _is_final(error: BaseException) -> bool:
    """Return whether Temporal will not retry, as far as this attempt knows."""
    info = activity.info()
    policy = info.retry_policy
    if policy is not None and 0 < policy.maximum_attempts <= info.attempt:
        return True
    return isinstance(error, ApplicationError) and error.non_retryable


_log = get_logger("perdure.runs")


class LiveTracing(Interceptor):
    """Interceptor of a worker that traces its runs live.

    Attempts that Temporal retries export nothing, nor does a replay. Raises `ConfigurationError`
    for a provider that is not OpenTelemetry's SDK's.
    """

    def __init__(self, provider: TracerProvider, runs: RunCache) -> None:
        self.spans = LiveSpans(provider)
        self.with_content = captures_content()
        self._runs = runs

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Called by the worker."""
        return TracedActivities(next, self.spans, self._runs, with_content=self.with_content)

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor] | None:
        """Called by the worker."""
        tracing = self

        class Inbound(WorkflowInboundInterceptor):
            async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
                return await tracing.execute_traced(super().execute_workflow, input)

        return Inbound

    async def execute_traced(
        self, execute: Callable[[ExecuteWorkflowInput], Any], input: ExecuteWorkflowInput
    ) -> Any:
        """Execute the workflow, and export the spans of the link at its end. Raises the workflow's
        errors.
        """
        run = workflow.instance()
        if not isinstance(run, AgentRun):
            return await execute(input)
        try:
            result = await execute(input)
        except ContinueAsNewError:
            self._export(run, is_last=False)
            raise
        except (FailureError, asyncio.CancelledError):
            if run.has_ended:  # not: evicted from the worker's cache
                self._export(run, is_last=True)
            raise
        self._export(run, is_last=True)
        return result

    def _export(self, run: AgentRun, *, is_last: bool) -> None:
        if workflow.unsafe.is_replaying():
            return
        try:
            self._export_link(run, is_last=is_last)
        except Exception:
            # An error here must not end the run.
            _log.exception("the spans of run %s can't be exported", workflow.info().workflow_id)

    def _export_link(self, run: AgentRun, *, is_last: bool) -> None:
        info, state = workflow.info(), run.state
        caller = state.input.lineage.trace if state.input.lineage else ""
        ids = TraceIds.of(info.namespace, info.workflow_id, info.first_execution_run_id, caller)
        turn = state.input.session
        describer = Describer(
            ids,
            state.input.agent,
            with_content=self.with_content,
            session=turn.session if turn else "",
        )
        events, now = state.events.all(), nanoseconds(workflow.time())
        spans = link_spans(describer, state, events)
        if is_last:
            found = info.typed_search_attributes.get(SESSION)
            spans.append(agent_span(describer, state, events, session=found))
            spans[-1].start = nanoseconds(state.loop.started_at)
        for facts in spans:
            span = self.spans.start(ids, facts, facts.start)
            self.spans.end(span, facts, now if facts.end is None else facts.end)
