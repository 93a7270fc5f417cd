"""Whether a worker measures its runs: it does where its client's runtime has metrics, and imports nothing elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from temporalio.client import Client
from temporalio.common import MetricMeter
from temporalio.runtime import Runtime
from temporalio.worker import Interceptor, Worker

from ..activities.run_cache import RunCache


def measuring(client: Client, runs: RunCache) -> list[Interceptor]:
    """The interceptor that measures runs; none where there are no metrics."""
    meter = _meter(client)
    if meter is None:
        return []
    from .metrics import Metrics

    return [Metrics(meter, runs)]


@asynccontextmanager
async def waiting_measured(worker: Worker) -> AsyncIterator[None]:
    """While the block runs, the runs that wait for a person are a metric, where there are metrics."""
    meter = _meter(worker.client)
    if meter is None:
        yield
        return
    from .waiting_gauge import waiting_counted

    async with waiting_counted(worker, meter):
        yield


def _meter(client: Client) -> MetricMeter | None:
    meter = (client.service_client.config.runtime or Runtime.default()).metric_meter
    return None if meter is MetricMeter.noop else meter
