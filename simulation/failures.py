"""Failures as Temporal's server and its SDK Core write them."""

from __future__ import annotations

from collections.abc import Sequence

from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import RetryState, TimeoutType
from temporalio.api.failure.v1 import Failure

IN_PROGRESS = RetryState.RETRY_STATE_IN_PROGRESS
TIMEOUTS = {
    "StartToClose": TimeoutType.TIMEOUT_TYPE_START_TO_CLOSE,
    "Heartbeat": TimeoutType.TIMEOUT_TYPE_HEARTBEAT,
    "ScheduleToStart": TimeoutType.TIMEOUT_TYPE_SCHEDULE_TO_START,
    "ScheduleToClose": TimeoutType.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE,
}


def timed_out(kind: str, details: Sequence[Payload] = ()) -> Failure:
    """Return the failure of an attempt that took too long."""
    failure = Failure(message=f"activity {kind} timeout", source="Server")
    info = failure.timeout_failure_info
    info.timeout_type = TIMEOUTS[kind]
    info.last_heartbeat_details.payloads.extend(details)
    return failure


def of_activity(
    id: str, type: str, scheduled: int, started: int, cause: Failure, state: RetryState.ValueType
) -> Failure:
    """Return the failure that an activity's handle raises."""
    failure = Failure(message="Activity task failed")
    info = failure.activity_failure_info
    info.activity_id, info.activity_type.name = id, type
    info.scheduled_event_id, info.started_event_id, info.retry_state = scheduled, started, state
    failure.cause.CopyFrom(cause)
    return failure


def cancelled(id: str, type: str, scheduled: int = 0) -> Failure:
    """Return the failure of an activity that was cancelled."""
    cause = Failure(message="Activity cancelled")
    cause.canceled_failure_info.SetInParent()
    return of_activity(id, type, scheduled, 0, cause, RetryState.RETRY_STATE_UNSPECIFIED)


def of_child(id: str, run_id: str, type: str, initiated: int, cause: Failure) -> Failure:
    """Return the failure that a child's handle raises."""
    failure = Failure(message="Child Workflow execution failed")
    info = failure.child_workflow_execution_failure_info
    info.workflow_execution.workflow_id, info.workflow_execution.run_id = id, run_id
    info.workflow_type.name, info.initiated_event_id = type, initiated
    failure.cause.CopyFrom(cause)
    return failure


def child_cancelled() -> Failure:
    """Return the cause of a child's failure that ended as cancelled."""
    failure = Failure(message="Workflow execution canceled")
    failure.canceled_failure_info.SetInParent()
    return failure


def child_terminated() -> Failure:
    """Return the cause of a child's failure that was terminated."""
    failure = Failure(message="Workflow execution terminated")
    failure.terminated_failure_info.SetInParent()
    return failure
