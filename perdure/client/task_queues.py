"""Whether anybody works on a task queue."""

from __future__ import annotations

import time

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.enums.v1 import PendingActivityState, PendingWorkflowTaskState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import WorkflowExecutionDescription

from ..activities.pollers import somebody_polls as somebody_polls
from ..protocol.pacing import PERMIT

PATIENCE_SECONDS = 3.0
"""A task that has waited for longer is one that nobody takes."""
OWN_PREFIX = "perdure."
"""How the types of the activities begin that the workers of a run execute."""


def has_waited(run: WorkflowExecutionDescription) -> bool:
    """Whether a task of the run waits for a worker, and has done so for `PATIENCE_SECONDS`.

    Not an activity of others that a tool calls, which the run's own workers do not execute, and not a permit: those
    come at their rate.
    """
    return decision_has_waited(run) or any(map(_execution_has_waited, run.raw_description.pending_activities))


def decision_has_waited(run: WorkflowExecutionDescription) -> bool:
    """Whether it is the workflow itself that waits for a worker."""
    task = run.raw_description.pending_workflow_task
    is_on_queue = task.state == PendingWorkflowTaskState.PENDING_WORKFLOW_TASK_STATE_SCHEDULED
    return is_on_queue and _is_long_ago(task.scheduled_time)


def _execution_has_waited(activity: PendingActivityInfo) -> bool:
    """One that waits for a retry is not on the queue yet."""
    name = activity.activity_type.name
    if name == PERMIT or not name.startswith(OWN_PREFIX):
        return False
    is_on_queue = activity.state == PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
    return is_on_queue and _is_long_ago(activity.scheduled_time) and _is_long_ago(activity.next_attempt_schedule_time)


def _is_long_ago(moment: Timestamp) -> bool:
    return time.time() - moment.ToMilliseconds() / 1000 > PATIENCE_SECONDS
