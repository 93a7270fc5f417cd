"""Whether anybody works on a task queue."""

from __future__ import annotations

import time

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.enums.v1 import PendingActivityState, PendingWorkflowTaskState, TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client, WorkflowExecutionDescription

POLL_SECONDS = 70.0
"""A worker polls at least once a minute; the server lists one that has left for longer than that."""
PATIENCE_SECONDS = 3.0
"""A task that has waited for longer is one that nobody takes."""
OWN_PREFIX = "perdure."
"""How the types of the activities begin that the workers of a run execute."""


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
    """Whether a task of the run waits for a worker, and has done so for `PATIENCE_SECONDS`.

    Not an activity of others that a tool calls: the run's own workers do not execute it.
    """
    own = [each for each in run.raw_description.pending_activities if each.activity_type.name.startswith(OWN_PREFIX)]
    return decision_has_waited(run) or any(map(_execution_has_waited, own))


def decision_has_waited(run: WorkflowExecutionDescription) -> bool:
    """Whether it is the workflow itself that waits for a worker."""
    task = run.raw_description.pending_workflow_task
    is_on_queue = task.state == PendingWorkflowTaskState.PENDING_WORKFLOW_TASK_STATE_SCHEDULED
    return is_on_queue and _is_long_ago(task.scheduled_time)


def _execution_has_waited(activity: PendingActivityInfo) -> bool:
    """One that waits for a retry is not on the queue yet."""
    is_on_queue = activity.state == PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
    return is_on_queue and _is_long_ago(activity.scheduled_time) and _is_long_ago(activity.next_attempt_schedule_time)


def _is_long_ago(moment: Timestamp) -> bool:
    return time.time() - moment.ToMilliseconds() / 1000 > PATIENCE_SECONDS
