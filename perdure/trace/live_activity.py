"""Exports the span of an activity's attempt when it has ended in a way that Temporal does not retry."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from opentelemetry.trace import Span
from temporalio import activity
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from ..activities.attempts import handed_on
from ..activities.run_cache import KnownRun, RunCache
from ..conversation import ConversationRef, DigestMismatchError
from ..errors import ConfigurationError
from ..logs import get_logger
from ..messages import Message
from ..protocol import activities
from ..tool_calls import PreparedRun
from ..trace_ids import TraceIds
from .describe import Describer, End
from .facts import SpanFacts
from .live_spans import LiveSpans, current

_log = get_logger("perdure.runs")

Describe = Callable[[End], SpanFacts]


class TracedActivities(ActivityInboundInterceptor):
    """Model calls, tools, guardrails and compactors; while one runs, its span is OpenTelemetry's current one."""

    def __init__(
        self, next: ActivityInboundInterceptor, spans: LiveSpans, runs: RunCache, *, with_content: bool
    ) -> None:
        super().__init__(next)
        self._spans = spans
        self._runs = runs
        self._with_content = with_content

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        """Called by the worker. Raises what the activity raises."""
        begun = await self._begin(input)
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

    async def _begin(self, input: ExecuteActivityInput) -> tuple[Span, Describe] | None:
        """The activity's span; None for one that has none, and where the run is not known, as the activity will say."""
        try:
            asked = _asked(input)
            if asked is None:
                return None
            ids, describe = await self._describe(await self._runs.current(), asked)
            return self._spans.start(ids, describe(None)), describe
        except (RPCError, DigestMismatchError, ConfigurationError) as error:
            _log.debug("an activity of run %s is not traced: %s", activity.info().workflow_id, error)
        except Exception:
            # Whatever is wrong here must not end the activity.
            _log.exception("an activity of run %s can't be traced", activity.info().workflow_id)
        return None

    async def _end(self, span: Span, describe: Describe, end: End) -> None:
        try:
            await self._export(span, describe, end, time.time_ns())
        except Exception:
            _log.exception("a span of run %s can't be exported", activity.info().workflow_id)

    async def _export(self, span: Span, describe: Describe, end: End, ended: int) -> None:
        """Export the span, unless another attempt goes on."""
        details = activity.cancellation_details()
        is_error = isinstance(end, BaseException)
        if details is not None and (is_error or not details.cancel_requested):
            if await handed_on():
                return
            end = asyncio.CancelledError()  # whatever it was, the run has not waited for it
        elif is_error and not _is_final(end):
            return
        self._spans.end(span, describe(end), ended)

    async def _describe(self, run: KnownRun, asked: Any) -> tuple[TraceIds, Describe]:
        info = activity.info()
        assert info.workflow_id is not None
        assert info.workflow_run_id is not None
        ids = TraceIds.of(info.namespace, info.workflow_id, run.first_run_id, run.caller)
        describer = Describer(ids, run.recorded_agent, with_content=self._with_content, session=run.session)
        place = (info.workflow_run_id, info.activity_id)
        match asked:
            case activities.ModelInput():
                said = await self._messages(asked.conversation) if self._with_content else []
                return ids, lambda end: describer.chat(asked, end, attempt=info.attempt, messages=said)
            case activities.ToolInput():
                tool = partial(describer.tool, earlier=asked.earlier, attempt=info.attempt)
                return ids, lambda end: tool(asked.request, end)
            case activities.JudgeInput():
                return ids, lambda end: describer.judge(asked, end, *place)
            case _:
                return ids, lambda end: describer.compact(asked, end, *place, attempt=info.attempt)

    async def _messages(self, reference: ConversationRef) -> list[Message]:
        try:
            return (await self._runs.messages_at(reference))[1]
        except (RPCError, DigestMismatchError, ConfigurationError):
            return []


_TRACED = (activities.ModelInput, activities.ToolInput, activities.JudgeInput, activities.CompactInput)


def _asked(input: ExecuteActivityInput) -> Any:
    """The argument of an activity that has a span; None for any other."""
    kind = activity.info().activity_type
    argument = input.args[0] if len(input.args) == 1 else None
    is_tool = kind == activities.RUN_TOOL or kind.startswith(activities.TOOL_PREFIX)
    if not (is_tool or kind in (activities.CALL_MODEL, activities.JUDGE, activities.COMPACT)):
        return None
    if is_tool and isinstance(argument, list | tuple) and len(argument) == 1 and isinstance(argument[0], RawValue):
        return activity.payload_converter().from_payload(argument[0].payload, activities.ToolInput)
    return argument if isinstance(argument, _TRACED) else None


def _is_final(error: BaseException) -> bool:
    """Whether Temporal will not try again, as far as this attempt can tell."""
    info = activity.info()
    policy = info.retry_policy
    if policy is not None and 0 < policy.maximum_attempts <= info.attempt:
        return True
    return isinstance(error, ApplicationError) and error.non_retryable
