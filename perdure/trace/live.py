"""Exports the spans of runs while they run: activities as they end, what the workflow knows at the end of a link."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from opentelemetry.trace import TracerProvider
from temporalio import workflow
from temporalio.exceptions import FailureError
from temporalio.worker import (
    ActivityInboundInterceptor,
    ExecuteWorkflowInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)
from temporalio.workflow import ContinueAsNewError

from ..activities.run_cache import RunCache
from ..logs import get_logger
from ..protocol.search_attributes import SESSION
from ..trace_ids import TraceIds
from ..workflows.agent_run import AgentRun
from .content import captures_content
from .describe import Describer
from .describe_run import agent_span, link_spans
from .facts import SpanFacts
from .live_activity import TracedActivities
from .live_spans import LiveSpans

_log = get_logger("perdure.runs")

NANOSECONDS = 1_000_000_000


class LiveTracing(Interceptor):
    """The interceptor of a worker whose runs are traced while they run.

    What Temporal retries exports nothing, and neither does a replay. Raises `ConfigurationError` for a provider that is
    not of OpenTelemetry's SDK.
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
                return await tracing.traced(super().execute_workflow, input)

        return Inbound

    async def traced(self, execute: Callable[[ExecuteWorkflowInput], Any], input: ExecuteWorkflowInput) -> Any:
        """What the workflow returns; the spans of the link are exported at its end. Raises what the workflow raises."""
        run = workflow.instance()
        if not isinstance(run, AgentRun):
            return await execute(input)
        try:
            result = await execute(input)
        except ContinueAsNewError:
            self._export(run, is_last=False)
            raise
        except (FailureError, asyncio.CancelledError):
            if run.has_ended:  # as opposed to: was evicted from the worker's cache
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
            # Whatever is wrong here must not end the run.
            _log.exception("the spans of run %s can't be exported", workflow.info().workflow_id)

    def _export_link(self, run: AgentRun, *, is_last: bool) -> None:
        info, record = workflow.info(), run.record
        caller = record.input.lineage.trace if record.input.lineage else ""
        ids = TraceIds.of(info.namespace, info.workflow_id, info.first_execution_run_id, caller)
        turn = record.input.session
        describer = Describer(
            ids, record.input.agent, with_content=self.with_content, session=turn.session if turn else ""
        )
        events, now = record.events, workflow.time()
        for timed in link_spans(describer, record, events):
            self._told(ids, timed.facts, timed.since, now if timed.until is None else timed.until)
        if is_last:
            found = info.typed_search_attributes.get(SESSION)
            self._told(ids, agent_span(describer, record, events, session=found), record.state.started_at, now)

    def _told(self, ids: TraceIds, facts: SpanFacts, since: float, until: float) -> None:
        span = self.spans.start(ids, facts, int(since * NANOSECONDS))
        self.spans.end(span, facts, int(until * NANOSECONDS))
