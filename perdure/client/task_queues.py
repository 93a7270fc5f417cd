"""Whether anybody works on a task queue."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from temporalio.api.enums.v1 import PendingActivityState, PendingWorkflowTaskState, TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client, WorkflowExecutionDescription

POLL_SECONDS = 70.0
"""A worker polls at least once a minute; the server lists one that has left for longer than that."""
PATIENCE_SECONDS = 3.0
"""A task that has waited for longer is one that nobody takes."""


async def somebody_polls(client: Client, task_queue: str) -> bool:
    """Whether a worker has lately polled the queue for workflow tasks. Raises `RPCError`."""
    description = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=TaskQueue(name=task_queue),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        )
    )
    newest = max((poller.last_access_time.ToSeconds() for poller in description.pollers), default=0)
    return time.time() - newest < POLL_SECONDS


async def queue_without_worker(client: Client, run: WorkflowExecutionDescription) -> str | None:
    """The open run's task queue, when no worker polls it or none takes what waits there. Raises `RPCError`."""
    if has_waited(run) or not await somebody_polls(client, run.task_queue):
        return run.task_queue
    return None


def has_waited(run: WorkflowExecutionDescription) -> bool:
    """Whether a task of the run waits for a worker, and has done so for `PATIENCE_SECONDS`."""
    return any(time.time() - since > PATIENCE_SECONDS for since in _waiting_since(run.raw_description))


def _waiting_since(raw: Any) -> Iterable[float]:
    """When each task that no worker has taken was put on its queue; those that wait for a retry are not on one yet."""
    task = raw.pending_workflow_task
    if task.state == PendingWorkflowTaskState.PENDING_WORKFLOW_TASK_STATE_SCHEDULED:
        yield task.scheduled_time.ToMilliseconds() / 1000
    for activity in raw.pending_activities:
        if activity.state == PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED:
            yield max(activity.scheduled_time, activity.next_attempt_schedule_time, key=_moment).ToMilliseconds() / 1000


def _moment(time: Any) -> int:
    milliseconds: int = time.ToMilliseconds()
    return milliseconds
