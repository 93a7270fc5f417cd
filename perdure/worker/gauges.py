"""Gauges of the server's state for a worker's task queue: open, waiting and ended runs, waiting
tasks.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueRequest,
)
from temporalio.client import Client
from temporalio.common import MetricMeter
from temporalio.service import RPCError

from ..protocol.names import WORKFLOW
from ..protocol.search_attributes import STATUS, quote
from ..redaction import get_logger

RUNS_UNDER_WAY = "perdure_runs_under_way"
RUNS_WAITING = "perdure_runs_waiting"
RUNS_HELD = "perdure_runs_held"
RUNS_CLOSED = "perdure_runs_closed_last_hour"
BACKLOG = "perdure_backlog_tasks"
BACKLOG_AGE = "perdure_backlog_age_seconds"

SECONDS = 15.0
"""Seconds between two measurements, each of which sends several requests; Prometheus scrapes about
as often."""
CLOSED_EVERY = 4
"""Closed runs are counted in each fourth measurement."""
CLOSED = ("Completed", "Failed", "Canceled", "Terminated", "TimedOut")
WAITS = {"waiting": RUNS_WAITING, "held": RUNS_HELD}

_log = get_logger("perdure.worker")


class QueueGauges:
    """The gauges of one task queue; each worker of the queue reports the same numbers."""

    def __init__(self, client: Client, task_queue: str, meter: MetricMeter) -> None:
        self._client, self._queue = client, task_queue
        self._about = {"namespace": client.namespace, "task_queue": task_queue}
        self._runs = f"WorkflowType = '{WORKFLOW}' AND TaskQueue = {quote(task_queue)}"
        self._under_way = meter.create_gauge(
            RUNS_UNDER_WAY, "Runs of the task queue that have not ended"
        )
        about = (
            "Runs of the task queue that wait for a person",
            "Runs of the task queue that are held",
        )
        self._waits = {
            status: meter.create_gauge(name, text)
            for (status, name), text in zip(WAITS.items(), about, strict=True)
        }
        self._closed = meter.create_gauge(
            RUNS_CLOSED, "Runs that have ended within the last hour, by status"
        )
        self._backlog = meter.create_gauge(
            BACKLOG, "Tasks of the queue that no worker has taken, by task_type"
        )
        self._backlog_age = meter.create_gauge_float(
            BACKLOG_AGE, "How long the oldest of these has waited"
        )

    async def keep_up_to_date(self) -> None:
        """Measure periodically; log an error once."""
        was_told, look = False, 0
        while True:
            try:
                await self.measure(with_closed=look % CLOSED_EVERY == 0)
            except RPCError as error:
                if not was_told:
                    _log.warning(
                        "The metrics of the task queue %r are not up to date: %s",
                        self._queue,
                        error,
                    )
                was_told = True
            else:
                was_told, look = False, look + 1
            await asyncio.sleep(SECONDS)

    async def measure(self, *, with_closed: bool = True) -> None:
        """Measure once. Raises RPCError."""
        self._under_way.set(await self._count("ExecutionStatus = 'Running'"), self._about)
        for status, gauge in self._waits.items():
            query = f"ExecutionStatus = 'Running' AND {STATUS.name} = '{status}'"
            gauge.set(await self._count(query), self._about)
        await self._measure_backlog()
        if with_closed:
            await self._measure_closed()

    async def _count(self, query: str) -> int:
        return (await self._client.count_workflows(f"{self._runs} AND {query}")).count

    async def _measure_closed(self) -> None:
        since = (datetime.now(UTC) - timedelta(hours=1)).isoformat(timespec="seconds")
        query = f"{self._runs} AND CloseTime > '{since}' GROUP BY ExecutionStatus"
        found = await self._client.count_workflows(query)
        counts = {str(group.group_values[0]): group.count for group in found.groups}
        for status in CLOSED:
            self._closed.set(counts.get(status, 0), {**self._about, "status": status})

    async def _measure_backlog(self) -> None:
        for name, kind in (
            ("workflow", TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW),
            (
                "activity",
                TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
            ),
        ):
            request = DescribeTaskQueueRequest(
                namespace=self._client.namespace,
                task_queue=TaskQueue(name=self._queue),
                task_queue_type=kind,
                report_stats=True,
            )
            stats = (
                await self._client.workflow_service.describe_task_queue(request, retry=True)
            ).stats
            about = {**self._about, "task_type": name}
            self._backlog.set(stats.approximate_backlog_count, about)
            self._backlog_age.set(
                stats.approximate_backlog_age.ToTimedelta().total_seconds(), about
            )
