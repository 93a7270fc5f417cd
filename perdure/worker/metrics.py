"""What a worker measures of its runs, on the metrics of Temporal's own runtime: one endpoint has both."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from temporalio import activity, workflow
from temporalio.common import MetricMeter
from temporalio.exceptions import FailureError
from temporalio.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
    ExecuteWorkflowInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)
from temporalio.workflow import ContinueAsNewError

from ..activities.heartbeat import on_first_words
from ..activities.run_cache import RunCache
from ..messages import ModelReply, ToolResult
from ..protocol import activities
from ..protocol.outcome import RunOutput
from ..tool_calls import PreparedRun
from ..trace.describe import PROVIDERS, described_error
from ..workflows.agent_run import AgentRun
from ..workflows.measures import run_ended
from .metric_names import FIRST_CHUNK_SECONDS, MODEL_SECONDS, TOKENS, TOOL_SECONDS


class Metrics(Interceptor):
    """The interceptor of a worker whose runtime has metrics; others have none, and pay nothing.

    Names and labels are those of OpenTelemetry's GenAI conventions, as Prometheus writes them.
    """

    def __init__(self, meter: MetricMeter, runs: RunCache) -> None:
        self._runs = runs
        self._tokens = meter.create_histogram(TOKENS, "Tokens of a model call, by gen_ai_token_type")
        self._model = meter.create_histogram_float(MODEL_SECONDS, "Attempts of model calls")
        self._first_chunk = meter.create_histogram_float(FIRST_CHUNK_SECONDS, "Until a streaming model says something")
        self._tool = meter.create_histogram_float(TOOL_SECONDS, "Attempts of tool executions")

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Called by the worker."""
        return _MeasuredActivities(next, self)

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor] | None:
        """Called by the worker."""
        return _MeasuredRuns

    async def model_called(self, input: Any, seconds: float, end: Any, first_words: float | None) -> None:
        """Count an attempt of a model call: its time, and its tokens if there is a reply."""
        fallback = input.fallback if isinstance(input, activities.ModelInput) else 0
        about = {**await self._model_labels(fallback), "gen_ai_operation_name": "chat"}
        self._model.record(seconds, {**about, "error_type": _error_type(end)})
        if first_words is not None:
            self._first_chunk.record(first_words, about)
        if isinstance(end, ModelReply):
            self._tokens.record(end.usage.input_tokens, {**about, "gen_ai_token_type": "input"})
            self._tokens.record(end.usage.output_tokens, {**about, "gen_ai_token_type": "output"})

    def tool_called(self, name: str, seconds: float, end: Any) -> None:
        """Count an attempt of a tool's execution."""
        self._tool.record(seconds, {"gen_ai_tool_name": name, "error_type": _error_type(end)})

    async def _model_labels(self, fallback: int) -> dict[str, str]:
        """Which model the run has: it is at hand, for the call that has just ended needed it."""
        try:
            agent = (await self._runs.current()).recorded_agent
            model = agent.model and agent.models[fallback]
        except Exception:
            # Whatever keeps the run from being read has failed the call as well, which says so.
            model = None
        provider = model.provider_key if model else ""
        return {
            "gen_ai_provider_name": PROVIDERS.get(provider, provider),
            "gen_ai_request_model": (model and model.id) or "",
        }


class _MeasuredActivities(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, metrics: Metrics) -> None:
        super().__init__(next)
        self._metrics = metrics

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        kind = activity.info().activity_type
        if kind == activities.CALL_MODEL:
            return await self._model_call(input)
        if kind == activities.RUN_TOOL or kind.startswith(activities.TOOL_PREFIX):
            return await self._tool_call(input, _tool_name(kind, input))
        return await super().execute_activity(input)

    async def _model_call(self, input: ExecuteActivityInput) -> Any:
        begun = time.monotonic()
        said: list[float] = []
        heard = on_first_words.set(lambda: said.append(time.monotonic() - begun))
        end: Any = None
        try:
            end = await super().execute_activity(input)
            return end
        except BaseException as error:
            end = error
            raise
        finally:
            on_first_words.reset(heard)
            asked = input.args[0] if input.args else None
            await self._metrics.model_called(asked, time.monotonic() - begun, end, said[0] if said else None)

    async def _tool_call(self, input: ExecuteActivityInput, name: str) -> Any:
        begun = time.monotonic()
        try:
            result = await super().execute_activity(input)
        except BaseException as error:
            self._metrics.tool_called(name, time.monotonic() - begun, error)
            raise
        if not (isinstance(result, PreparedRun) and result.messages is not None):
            self._metrics.tool_called(name, time.monotonic() - begun, result)
        return result


class _MeasuredRuns(WorkflowInboundInterceptor):
    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
        run = workflow.instance()
        if not isinstance(run, AgentRun):
            return await super().execute_workflow(input)
        try:
            output = await super().execute_workflow(input)
        except ContinueAsNewError:
            raise
        except asyncio.CancelledError:
            if run.has_ended:  # as opposed to: was evicted from the worker's cache
                _count(run, "cancelled")
            raise
        except FailureError as error:
            _count(run, "failed", getattr(error, "type", None) or type(error).__name__)
            raise
        _count(run, "incomplete" if isinstance(output, RunOutput) and output.is_incomplete else "done")
        return output


def _count(run: AgentRun, outcome: str, error_kind: str = "") -> None:
    record = run.record
    run_ended(record.input.agent.name, outcome, error_kind, workflow.time() - record.state.started_at)


def _tool_name(activity_type: str, input: ExecuteActivityInput) -> str:
    if activity_type != activities.RUN_TOOL:
        return activity_type.removeprefix(activities.TOOL_PREFIX)
    [asked] = input.args
    return str(asked.request.name) if isinstance(asked, activities.ToolInput) else ""


def _error_type(end: Any) -> str:
    """`error.type` of the conventions; "", which Prometheus takes for no label, where nothing went wrong."""
    if isinstance(end, BaseException):
        return described_error(end)[0]
    if isinstance(end, ToolResult) and end.status != "success":
        return end.error_kind or end.status
    return ""
