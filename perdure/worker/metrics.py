"""A worker's metrics of its runs, on Temporal's own runtime: one endpoint has both."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import MetricMeter
from temporalio.exceptions import FailureError
from temporalio.runtime import LoggingConfig, PrometheusConfig, Runtime, TelemetryConfig
from temporalio.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
    Worker,
)
from temporalio.workflow import ContinueAsNewError

from ..activities.heartbeat import on_first_words
from ..activities.run_cache import KnownRun, RunCache
from ..agents import Model
from ..errors import ConfigurationError, ExecuteError
from ..messages import ModelReply, ToolResult
from ..protocol import activities
from ..protocol.outcome import RunFailure, RunOutput
from ..tool_calls import PreparedRun
from ..workflows.agent_run import AgentRun
from ..workflows.interceptors import RunObserver
from ..workflows.logging import (
    AGENT_SECONDS,
    RUN_DOLLARS,
    WAIT_SECONDS,
    run_ended,
    run_paid,
    run_started,
)
from .ending import in_background
from .gauges import QueueGauges


def measure(client: Client, runs: RunCache) -> list[Interceptor]:
    """Return the interceptor that measures runs; none without metrics."""
    meter = meter_of(client)
    return [] if meter is None else [Metrics(meter, runs)]


@asynccontextmanager
async def queue_measured(worker: Worker) -> AsyncIterator[None]:
    """Measure the server's state for the worker's task queue while the block runs, if there are
    metrics.
    """
    meter = meter_of(worker.client)
    if meter is None:
        yield
        return
    async with in_background(QueueGauges(worker.client, worker.task_queue, meter).keep_up_to_date):
        yield


def meter_of(client: Client) -> MetricMeter | None:
    """Return the meter of a worker with this client; None without metrics."""
    meter = (client.service_client.config.runtime or Runtime.default()).metric_meter
    return None if meter is MetricMeter.noop else meter


TOKENS = "gen_ai_client_token_usage"
CACHE_TOKENS = "perdure_cache_tokens"
CALL_DOLLARS = "perdure_model_call_cost_dollars"
UNPRICED = "perdure_unpriced_model_calls"
MODEL_SECONDS = "gen_ai_client_operation_duration_seconds"
FIRST_CHUNK_SECONDS = "gen_ai_client_operation_time_to_first_chunk_seconds"
TOOL_SECONDS = "gen_ai_execute_tool_duration_seconds"


class Metrics(RunObserver[AgentRun]):
    """The interceptor of a worker whose runtime has metrics; others have none, and no overhead.

    Names and labels are those of OpenTelemetry's GenAI conventions, in Prometheus's form.
    """

    def __init__(self, meter: MetricMeter, runs: RunCache) -> None:
        self._runs = runs
        self._tokens = meter.create_histogram(
            TOKENS, "Tokens of a model call, by gen_ai_token_type"
        )
        self._cached = meter.create_counter(
            CACHE_TOKENS, "Input tokens read from or written to the prompt cache, by kind"
        )
        self._dollars = meter.create_histogram_float(
            CALL_DOLLARS, "Cost of model calls, in US dollars"
        )
        self._unpriced = meter.create_counter(UNPRICED, "Model calls whose price is not known")
        self._model = meter.create_histogram_float(MODEL_SECONDS, "Attempts of model calls")
        self._first_chunk = meter.create_histogram_float(
            FIRST_CHUNK_SECONDS, "Time to the first token of a streamed answer"
        )
        self._tool = meter.create_histogram_float(TOOL_SECONDS, "Attempts of tool executions")

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Called by the worker."""
        return _MeasuredActivities(next, self)

    def on_begin(self, run: AgentRun, info: workflow.Info) -> None:
        run.labels = {"gen_ai_agent_name": run.state.input.agent.name or ""}
        if info.continued_run_id is None:
            run_started(run.labels)

    def on_end(self, run: AgentRun, info: workflow.Info, end: Any) -> None:
        match end:
            case RunOutput():
                _count(run, "incomplete" if end.is_incomplete else "done")
            case ContinueAsNewError():
                pass
            case asyncio.CancelledError() if run.has_ended:
                _count(run, "cancelled")
            case FailureError():
                _count(run, "failed", end)

    async def model_called(
        self, input: Any, seconds: float, end: Any, first_words: float | None
    ) -> None:
        """Record an attempt of a model call: its time, and its tokens if there is a reply."""
        fallback = input.fallback if isinstance(input, activities.ModelInput) else 0
        model = input.model if isinstance(input, activities.ModelInput) else None
        if _error_type(end) in activities.REFUSED:
            return
        about = {**await self._model_labels(fallback, model), "gen_ai_operation_name": "chat"}
        self._model.record(seconds, {**about, "error_type": _error_type(end)})
        if first_words is not None:
            self._first_chunk.record(first_words, about)
        if isinstance(end, ModelReply):
            self._count_reply(end, about)

    def _count_reply(self, reply: ModelReply, about: dict[str, str]) -> None:
        usage = reply.usage
        self._tokens.record(usage.input_tokens, {**about, "gen_ai_token_type": "input"})
        self._tokens.record(usage.output_tokens, {**about, "gen_ai_token_type": "output"})
        self._cached.add(usage.cached_input_tokens, {**about, "kind": "read"})
        self._cached.add(usage.cache_write_tokens, {**about, "kind": "write"})
        if reply.cost_usd is None:
            self._unpriced.add(1, about)
        else:
            self._dollars.record(reply.cost_usd, about)

    def tool_called(self, name: str, seconds: float, end: Any) -> None:
        """Record an attempt of a tool's execution."""
        if (kind := _error_type(end)) not in activities.REFUSED:
            about = {**self._labels(self._runs.at_hand()), "gen_ai_tool_name": name}
            self._tool.record(seconds, {**about, "error_type": kind})

    def _labels(self, run: KnownRun | None) -> dict[str, str]:
        """Return the activity's labels; activities do not know the tenant."""
        info = activity.info()
        agent = (run and run.recorded_agent.name) or ""
        return {
            "namespace": info.namespace,
            "task_queue": info.task_queue,
            "gen_ai_agent_name": agent,
        }

    async def _model_labels(self, fallback: int, other: Model | None) -> dict[str, str]:
        """Return the labels of the run's model. The run is cached, since the call that has just
        ended needed it.
        """
        run = None
        model = None
        try:
            run = await self._runs.current()
            model = run.recorded_agent.model and run.recorded_agent.models[fallback]
            model = model if fallback else other or model
        except Exception:
            # An error that prevents reading the run has failed the call as well, and is reported
            # there.
            pass
        provider = model.provider_key if model else ""
        from ..trace.describe import (
            PROVIDERS,
        )  # imports OpenTelemetry, which most workers do not need

        return {
            **self._labels(run),
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
            await self._metrics.model_called(
                asked, time.monotonic() - begun, end, said[0] if said else None
            )

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


def _count(run: AgentRun, outcome: str, error: FailureError | None = None) -> None:
    kind = "" if error is None else getattr(error, "type", None) or type(error).__name__
    loop, is_called = run.state.loop, run.state.input.lineage is not None
    about = {**run.labels, "error_type": kind, "cause": _cause(error)}
    run_ended(about, outcome, workflow.time() - loop.started_at)
    if not is_called and loop.cost_usd is not None:
        run_paid(run.labels, loop.cost_usd)


def _cause(error: FailureError | None) -> str:
    """Return the detail behind the error's kind: the kind of the model's error, or the exceeded
    option.
    """
    [failure] = getattr(error, "details", None) or [None]
    if not isinstance(failure, RunFailure):
        return ""
    return failure.option or (failure.reason if failure.kind == ExecuteError.kind else "") or ""


def _tool_name(activity_type: str, input: ExecuteActivityInput) -> str:
    if activity_type != activities.RUN_TOOL:
        return activity_type.removeprefix(activities.TOOL_PREFIX)
    [asked] = input.args
    return str(asked.request.name) if isinstance(asked, activities.ToolInput) else ""


def _error_type(end: Any) -> str:
    """Return `error.type` of the conventions; without an error "", which Prometheus treats as no
    label.
    """
    if isinstance(end, BaseException):
        from ..trace.describe import described_error

        return described_error(end)[0]
    if isinstance(end, ToolResult) and end.status != "success":
        return end.error_kind or end.status
    return ""


_DOLLAR_BUCKETS = tuple(0.0001 * 4.0**power for power in range(10))
"""A hundredth of a cent to 26 dollars."""
_CALL_BUCKETS = tuple(0.01 * 2.0**power for power in range(14))
"""0.01 s to 81.92 s, as in the GenAI conventions."""
_LONG_BUCKETS = tuple(float(60 * 4**power) for power in range(10))
_RUN_BUCKETS = (1.0, 4.0, 16.0, *_LONG_BUCKETS)
"""A second to half a year: a run may wait for a person."""

HISTOGRAM_BUCKETS: dict[str, Sequence[float]] = {
    TOKENS: tuple(float(4**power) for power in range(14)),
    CALL_DOLLARS: _DOLLAR_BUCKETS,
    RUN_DOLLARS: _DOLLAR_BUCKETS,
    MODEL_SECONDS: _CALL_BUCKETS,
    FIRST_CHUNK_SECONDS: _CALL_BUCKETS,
    TOOL_SECONDS: _CALL_BUCKETS,
    AGENT_SECONDS: _RUN_BUCKETS,
    WAIT_SECONDS: _RUN_BUCKETS,
}
"""For `PrometheusConfig.histogram_bucket_overrides` of your own runtime."""


def metrics_runtime(
    address: str, *, logging: LoggingConfig | None = LoggingConfig.default
) -> Runtime:
    """Return a Temporal runtime that serves metrics at `http://ADDRESS/metrics`; connect the
    worker's client with it.

    The address is `HOST:PORT`, where the host is an IP address or `localhost`. Durations are in
    seconds, and names have Prometheus's suffixes (`_total`, `_seconds`); the label `service_name`
    is `OTEL_SERVICE_NAME`, or perdure. `logging` configures the SDK's own log. Raises
    `ConfigurationError` if the address can't be used: each process needs a port of its own.
    """
    where = bind_address(address)
    config = PrometheusConfig(
        bind_address=where,
        counters_total_suffix=True,
        unit_suffix=True,
        durations_as_seconds=True,
        histogram_bucket_overrides=HISTOGRAM_BUCKETS,
    )
    try:
        return Runtime(
            telemetry=TelemetryConfig(
                logging=logging,
                metrics=config,
                attach_service_name=False,  # the SDK's label, which names the SDK
                global_tags={"service_name": os.environ.get("OTEL_SERVICE_NAME") or "perdure"},
            )
        )
    except ValueError as error:
        why = str(error).removeprefix("Failed starting Prometheus exporter: ")
        raise ConfigurationError(
            f"no metrics can be served at {where!r}: {why}. Expected an address of this machine "
            "and a port that no other process uses: choose another one"
        ) from error


def bind_address(address: str, of: str = "metrics") -> str:
    """Return the address with an IP address as its host. Raises `ConfigurationError` for anything
    else.
    """
    host, _, port = address.rpartition(":")
    host = "127.0.0.1" if host == "localhost" else host
    try:
        ip_address(host.strip("[]"))
        if not 0 < int(port) < 65536:
            raise ValueError(port)
    except ValueError as error:
        raise ConfigurationError(
            f"the address for {of} is {address!r}. Expected an IP address, or localhost, and a "
            "port: 127.0.0.1:9464"
        ) from error
    return f"{host}:{int(port)}"
