"""What a worker measures of its runs, on the metrics of Temporal's own runtime: one endpoint has both."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import MetricGauge, MetricMeter
from temporalio.exceptions import FailureError
from temporalio.runtime import LoggingConfig, PrometheusConfig, Runtime, TelemetryConfig
from temporalio.service import RPCError
from temporalio.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
    ExecuteWorkflowInput,
    Interceptor,
    Worker,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)
from temporalio.workflow import ContinueAsNewError

from ..activities.heartbeat import on_first_words
from ..activities.run_cache import RunCache
from ..errors import ConfigurationError
from ..messages import ModelReply, ToolResult
from ..protocol import activities
from ..protocol.names import WORKFLOW
from ..protocol.outcome import RunOutput
from ..protocol.search_attributes import STATUS, quote
from ..redaction import get_logger
from ..tool_calls import PreparedRun
from ..workflows.agent_run import AgentRun
from ..workflows.logging import AGENT_SECONDS, WAIT_SECONDS, run_ended


def measure(client: Client, runs: RunCache) -> list[Interceptor]:
    """Return the interceptor that measures runs; none where there are no metrics."""
    meter = _meter(client)
    if meter is None:
        return []
    return [Metrics(meter, runs)]


@asynccontextmanager
async def waiting_measured(worker: Worker) -> AsyncIterator[None]:
    """While the block runs, the runs that wait for a person are a metric, where there are metrics."""
    meter = _meter(worker.client)
    if meter is None:
        yield
        return
    async with waiting_counted(worker, meter):
        yield


def _meter(client: Client) -> MetricMeter | None:
    meter = (client.service_client.config.runtime or Runtime.default()).metric_meter
    return None if meter is MetricMeter.noop else meter


TOKENS = "gen_ai_client_token_usage"
MODEL_SECONDS = "gen_ai_client_operation_duration_seconds"
FIRST_CHUNK_SECONDS = "gen_ai_client_operation_time_to_first_chunk_seconds"
TOOL_SECONDS = "gen_ai_execute_tool_duration_seconds"


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
        """Return which model the run has: it is at hand, for the call that has just ended needed it."""
        try:
            agent = (await self._runs.current()).recorded_agent
            model = agent.model and agent.models[fallback]
        except Exception:
            # Whatever keeps the run from being read has failed the call as well, which says so.
            model = None
        provider = model.provider_key if model else ""
        from ..trace.describe import PROVIDERS  # brings OpenTelemetry, which most workers go without

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
    state = run.state
    run_ended(state.input.agent.name, outcome, error_kind, workflow.time() - state.loop.started_at)


def _tool_name(activity_type: str, input: ExecuteActivityInput) -> str:
    if activity_type != activities.RUN_TOOL:
        return activity_type.removeprefix(activities.TOOL_PREFIX)
    [asked] = input.args
    return str(asked.request.name) if isinstance(asked, activities.ToolInput) else ""


def _error_type(end: Any) -> str:
    """`error.type` of the conventions; "", which Prometheus takes for no label, where nothing went wrong."""
    if isinstance(end, BaseException):
        from ..trace.describe import described_error

        return described_error(end)[0]
    if isinstance(end, ToolResult) and end.status != "success":
        return end.error_kind or end.status
    return ""


_CALL_BUCKETS = tuple(0.01 * 2.0**power for power in range(14))
"""0.01 s to 81.92 s, as the GenAI conventions have them."""
_LONG_BUCKETS = tuple(float(60 * 4**power) for power in range(10))
_RUN_BUCKETS = (1.0, 4.0, 16.0, *_LONG_BUCKETS)
"""A second to half a year: a run may wait for a person."""

HISTOGRAM_BUCKETS: dict[str, Sequence[float]] = {
    TOKENS: tuple(float(4**power) for power in range(14)),
    MODEL_SECONDS: _CALL_BUCKETS,
    FIRST_CHUNK_SECONDS: _CALL_BUCKETS,
    TOOL_SECONDS: _CALL_BUCKETS,
    AGENT_SECONDS: _RUN_BUCKETS,
    WAIT_SECONDS: _RUN_BUCKETS,
}
"""For `PrometheusConfig.histogram_bucket_overrides` of a runtime of your own."""


def metrics_runtime(address: str, *, logging: LoggingConfig | None = LoggingConfig.default) -> Runtime:
    """Temporal runtime that serves metrics at `http://ADDRESS/metrics`; connect the worker's client with it.

    The address is `HOST:PORT`, where the host is an IP address or `localhost`. Durations are in seconds, and names end
    as Prometheus has it (`_total`, `_seconds`). `logging` is what the SDK itself logs. Raises `ConfigurationError` when
    nothing can be served there: each process needs a port of its own.
    """
    where = _bind_address(address)
    config = PrometheusConfig(
        bind_address=where,
        counters_total_suffix=True,
        unit_suffix=True,
        durations_as_seconds=True,
        histogram_bucket_overrides=HISTOGRAM_BUCKETS,
    )
    try:
        return Runtime(telemetry=TelemetryConfig(logging=logging, metrics=config))
    except ValueError as error:
        why = str(error).removeprefix("Failed starting Prometheus exporter: ")
        raise ConfigurationError(
            f"no metrics can be served at {where!r}: {why}. Expected an address of this machine and a port that no "
            "other process uses: choose another one"
        ) from error


def _bind_address(address: str) -> str:
    host, _, port = address.rpartition(":")
    host = "127.0.0.1" if host == "localhost" else host
    try:
        ip_address(host.strip("[]"))
        if not 0 < int(port) < 65536:
            raise ValueError(port)
    except ValueError as error:
        raise ConfigurationError(
            f"the address for metrics is {address!r}. Expected an IP address, or localhost, and a port: 127.0.0.1:9464"
        ) from error
    return f"{host}:{int(port)}"


RUNS_WAITING = "perdure_runs_waiting"
SECONDS = 15.0
"""Between two counts, each of which is a request to the server; Prometheus looks about as often."""

_log = get_logger("perdure.worker")


@asynccontextmanager
async def waiting_counted(worker: Worker, meter: MetricMeter) -> AsyncIterator[None]:
    """While the block runs, count the runs of the worker's task queue that wait for a person."""
    gauge = meter.create_gauge(RUNS_WAITING, "Runs of the task queue that wait for a person")
    task = asyncio.create_task(_count_of(worker.client, worker.task_queue, gauge))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _count_of(client: Client, task_queue: str, gauge: MetricGauge) -> None:
    about = {"namespace": client.namespace, "task_queue": task_queue}
    was_told = False
    while True:
        try:
            gauge.set(await waiting_runs(client, task_queue), about)
        except RPCError as error:
            if not was_told:
                _log.warning("The metric %s is not up to date: %s", RUNS_WAITING, error)
            was_told = True
        else:
            was_told = False
        await asyncio.sleep(SECONDS)


async def waiting_runs(client: Client, task_queue: str) -> int:
    """Return how many runs of the task queue wait for a person. Raises RPCError."""
    query = (
        f"WorkflowType = '{WORKFLOW}' AND ExecutionStatus = 'Running' AND {STATUS.name} = 'waiting' "
        f"AND TaskQueue = {quote(task_queue)}"
    )
    return (await client.count_workflows(query)).count
