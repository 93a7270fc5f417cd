"""The one endpoint of a worker's metrics: Temporal's own and perdure's, for Prometheus."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address

from temporalio.runtime import LoggingConfig, PrometheusConfig, Runtime, TelemetryConfig

from ..errors import ConfigurationError
from ..workflows.measures import AGENT_SECONDS, WAIT_SECONDS
from .metric_names import FIRST_CHUNK_SECONDS, MODEL_SECONDS, TOKENS, TOOL_SECONDS

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
    """A Temporal runtime that serves metrics at `http://ADDRESS/metrics`; connect the worker's client with it.

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
