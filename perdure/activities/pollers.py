"""Finds who polls a task queue, and which quota is used up; imports no models, for callers that only list runs."""

from __future__ import annotations

import time

from temporalio.api.enums.v1 import ResourceExhaustedCause, TaskQueueType
from temporalio.api.errordetails.v1 import ResourceExhaustedFailure
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

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


_CAUSE = "RESOURCE_EXHAUSTED_CAUSE_"
_NO_QUOTA = (
    ResourceExhaustedCause.RESOURCE_EXHAUSTED_CAUSE_UNSPECIFIED,
    ResourceExhaustedCause.RESOURCE_EXHAUSTED_CAUSE_BUSY_WORKFLOW,
)


def quota_of(error: RPCError) -> str:
    """Return which quota of the server's is used up, such as `RPS limit: namespace rate limit exceeded`.

    Returns "" for other errors, and where only one workflow is too busy.
    """
    if error.status is not RPCStatusCode.RESOURCE_EXHAUSTED:
        return ""
    for detail in error.grpc_status.details:
        failure = ResourceExhaustedFailure()
        if detail.Unpack(failure) and failure.cause not in _NO_QUOTA:
            cause = ResourceExhaustedCause.Name(failure.cause).removeprefix(_CAUSE).replace("_", " ")
            return f"{cause.lower().replace('rps', 'RPS').replace('aps', 'APS')}: {error.message}"
    return ""
