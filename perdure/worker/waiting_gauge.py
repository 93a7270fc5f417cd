"""How many runs of a task queue wait for a person, as a metric: counted by the server, whoever holds them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from temporalio.client import Client
from temporalio.common import MetricGauge, MetricMeter
from temporalio.service import RPCError
from temporalio.worker import Worker

from ..logs import get_logger
from ..protocol.names import WORKFLOW
from ..protocol.search_attributes import STATUS, quoted

RUNS_WAITING = "perdure_runs_waiting"
SECONDS = 15.0
"""Between two counts, each of which is a request to the server; Prometheus looks about as often."""

_log = get_logger("perdure.worker")


@asynccontextmanager
async def waiting_counted(worker: Worker, meter: MetricMeter) -> AsyncIterator[None]:
    """While the block runs, count the runs of the worker's task queue that wait for a person."""
    gauge = meter.create_gauge(RUNS_WAITING, "Runs of the task queue that wait for a person")
    task = asyncio.create_task(_count(worker.client, worker.task_queue, gauge))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _count(client: Client, task_queue: str, gauge: MetricGauge) -> None:
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
    """How many runs of the task queue wait for a person. Raises RPCError."""
    query = (
        f"WorkflowType = '{WORKFLOW}' AND ExecutionStatus = 'Running' AND {STATUS.name} = 'waiting' "
        f"AND TaskQueue = {quoted(task_queue)}"
    )
    return (await client.count_workflows(query)).count
