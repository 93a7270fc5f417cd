"""Finds whether a worker polls a task queue; imports no models, for callers that only list runs."""

from __future__ import annotations

import time

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client

POLL_SECONDS = 70.0
"""A worker polls at least once a minute; the server lists one that has left for longer than that."""
WORKFLOWS = TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW
ACTIVITIES = TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY


async def somebody_polls(
    client: Client,
    task_queue: str,
    kind: TaskQueueType.ValueType = WORKFLOWS,
    *,
    within: float = POLL_SECONDS,
    now: float | None = None,
) -> bool:
    """Return whether a worker has polled the queue for tasks of that kind in the last seconds. Raises `RPCError`.

    `now` is the server's time; None takes this machine's for it.
    """
    description = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace, task_queue=TaskQueue(name=task_queue), task_queue_type=kind
        )
    )
    newest = max((poller.last_access_time.ToMilliseconds() for poller in description.pollers), default=0)
    return (time.time() if now is None else now) - newest / 1000 < within
