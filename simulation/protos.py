"""Histories in Temporal's own form: for perdure's readers, and for a replay by the SDK's Core."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import (
    CancelExternalWorkflowExecutionFailedCause,
    EventType,
    SignalExternalWorkflowExecutionFailedCause,
    StartChildWorkflowExecutionFailedCause,
    TimeoutType,
)
from temporalio.api.history.v1 import HistoryEvent

from .history import Event, Execution, Start

Fill = Callable[[HistoryEvent, Execution, Event], None]


def event_proto(execution: Execution, event: Event) -> HistoryEvent:
    """Return the event as Temporal's API has it."""
    proto = HistoryEvent(event_id=event.id, task_id=event.id)
    proto.event_time.FromNanoseconds(int(event.time * 1e9))
    name, fill = _KINDS[event.kind]
    proto.event_type = EventType.Value(f"EVENT_TYPE_{name}")
    fill(proto, execution, event)
    if hasattr(event.body, "HasField") and "user_metadata" in event.body.DESCRIPTOR.fields_by_name:
        proto.user_metadata.CopyFrom(event.body.user_metadata)
    return proto


def _started(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    start: Start = event.body
    attributes = proto.workflow_execution_started_event_attributes
    attributes.workflow_type.name, attributes.task_queue.name = start.type, start.task_queue
    attributes.input.payloads.extend(start.input)
    attributes.workflow_task_timeout.FromNanoseconds(int(start.task_timeout * 1e9))
    attributes.original_execution_run_id = execution.run_id
    attributes.first_execution_run_id = start.first_run_id
    attributes.continued_execution_run_id = start.continued_run_id
    attributes.workflow_id, attributes.attempt = execution.id, 1
    for name, payload in start.memo.items():
        attributes.memo.fields[name].CopyFrom(payload)
    if start.attributes is not None:
        attributes.search_attributes.CopyFrom(start.attributes)
    if start.parent is not None:
        above = attributes.parent_workflow_execution
        above.workflow_id, above.run_id = start.parent
        attributes.parent_workflow_namespace = "default"
        attributes.parent_initiated_event_id = start.parent_event


def _task_scheduled(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    attributes = proto.workflow_task_scheduled_event_attributes
    attributes.task_queue.name, attributes.attempt = execution.start.task_queue, 1


def _task_started(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    attributes = proto.workflow_task_started_event_attributes
    attributes.scheduled_event_id = event.ref
    attributes.history_size_bytes, attributes.suggest_continue_as_new = event.body


def _task_completed(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    attributes = proto.workflow_task_completed_event_attributes
    attributes.started_event_id = event.ref
    attributes.scheduled_event_id = execution.event(event.ref).ref
    if not any(each.kind == "task_completed" for each in execution.events[: event.id - 1]):
        attributes.sdk_metadata.core_used_flags.extend([1, 2, 3, 4])
        attributes.sdk_metadata.sdk_name = "temporal-python"
        attributes.sdk_metadata.sdk_version = "1.35.0"


def _task_failed(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    attributes = proto.workflow_task_failed_event_attributes
    attributes.started_event_id = event.ref
    attributes.scheduled_event_id = execution.event(event.ref).ref


def _task_timed_out(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    attributes = proto.workflow_task_timed_out_event_attributes
    if event.body == "sticky":
        attributes.scheduled_event_id = event.ref
        attributes.timeout_type = TimeoutType.TIMEOUT_TYPE_SCHEDULE_TO_START
    else:
        attributes.started_event_id = event.ref
        attributes.scheduled_event_id = execution.event(event.ref).ref
        attributes.timeout_type = TimeoutType.TIMEOUT_TYPE_START_TO_CLOSE


def _activity_scheduled(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    command = event.body.schedule_activity
    attributes = proto.activity_task_scheduled_event_attributes
    attributes.activity_id, attributes.activity_type.name = (
        command.activity_id,
        command.activity_type,
    )
    attributes.task_queue.name = command.task_queue
    attributes.input.payloads.extend(command.arguments)
    attributes.workflow_task_completed_event_id = event.task
    attributes.retry_policy.CopyFrom(command.retry_policy)
    attributes.start_to_close_timeout.CopyFrom(command.start_to_close_timeout)
    attributes.heartbeat_timeout.CopyFrom(command.heartbeat_timeout)


def _activity_started(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    attributes = proto.activity_task_started_event_attributes
    attributes.scheduled_event_id, attributes.attempt = event.ref, event.body or 0


def _activity_completed(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    attributes = proto.activity_task_completed_event_attributes
    attributes.scheduled_event_id, attributes.started_event_id = event.ref, event.id - 1
    if event.body is not None:
        attributes.result.payloads.append(event.body)


def _activity_failed(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    attributes = proto.activity_task_failed_event_attributes
    attributes.scheduled_event_id, attributes.started_event_id = event.ref, event.id - 1
    attributes.failure.CopyFrom(event.body.cause)
    attributes.retry_state = event.body.activity_failure_info.retry_state


def _activity_timed_out(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    attributes = proto.activity_task_timed_out_event_attributes
    attributes.scheduled_event_id, attributes.started_event_id = event.ref, event.id - 1
    attributes.failure.CopyFrom(event.body.cause)
    attributes.retry_state = event.body.activity_failure_info.retry_state


def _activity_cancel(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    attributes = proto.activity_task_cancel_requested_event_attributes
    attributes.scheduled_event_id = event.ref
    attributes.workflow_task_completed_event_id = event.task


def _activity_canceled(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    attributes = proto.activity_task_canceled_event_attributes
    attributes.scheduled_event_id, attributes.started_event_id = event.ref, event.id - 1


def _timer_started(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    attributes = proto.timer_started_event_attributes
    attributes.timer_id = str(event.body.start_timer.seq)
    attributes.start_to_fire_timeout.CopyFrom(event.body.start_timer.start_to_fire_timeout)
    attributes.workflow_task_completed_event_id = event.task


def _timer_fired(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    attributes = proto.timer_fired_event_attributes
    attributes.timer_id = str(execution.event(event.ref).body.start_timer.seq)
    attributes.started_event_id = event.ref


def _timer_canceled(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    attributes = proto.timer_canceled_event_attributes
    attributes.timer_id = str(execution.event(event.ref).body.start_timer.seq)
    attributes.started_event_id = event.ref
    attributes.workflow_task_completed_event_id = event.task


def _local_marker(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    seq, result, type, index = event.body
    attributes = proto.marker_recorded_event_attributes
    attributes.marker_name = "core_local_activity"
    attributes.workflow_task_completed_event_id = event.task
    at = {"seconds": int(event.time), "nanos": 0}
    data = {
        "seq": seq,
        "attempt": 1,
        "activity_id": str(seq),
        "activity_type": type,
        "complete_time": at,
        "backoff": None,
        "original_schedule_time": at,
        "activation_index": index,
    }
    attributes.details["data"].payloads.append(_json(data))
    if result.HasField("completed"):
        attributes.details["result"].payloads.append(result.completed.result)
    else:
        ended = result.failed if result.HasField("failed") else result.cancelled
        attributes.failure.CopyFrom(ended.failure)


def _patch_marker(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    attributes = proto.marker_recorded_event_attributes
    attributes.marker_name = "core_patch"
    attributes.workflow_task_completed_event_id = event.task
    data = {"id": event.body.set_patch_marker.patch_id, "deprecated": False}
    attributes.details["patch-data"].payloads.append(_json(data))


def _upserted(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    attributes = proto.upsert_workflow_search_attributes_event_attributes
    attributes.workflow_task_completed_event_id = event.task
    attributes.search_attributes.CopyFrom(
        event.body.upsert_workflow_search_attributes.search_attributes
    )


def _signaled(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    attributes = proto.workflow_execution_signaled_event_attributes
    attributes.signal_name = event.body[0]
    attributes.input.payloads.extend(event.body[1])


def _cancel_requested(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    proto.workflow_execution_cancel_requested_event_attributes.cause = event.body


def _update_accepted(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    attributes = proto.workflow_execution_update_accepted_event_attributes
    update = event.body
    attributes.protocol_instance_id = update.id
    attributes.accepted_request_message_id = f"{update.id}/request"
    completed = execution.event(event.task)
    attributes.accepted_request_sequencing_event_id = completed.ref - 1
    attributes.accepted_request.meta.update_id = update.id
    attributes.accepted_request.input.name = update.name
    attributes.accepted_request.input.args.payloads.extend(update.input)


def _update_completed(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    attributes = proto.workflow_execution_update_completed_event_attributes
    update, outcome = event.body
    attributes.meta.update_id, attributes.accepted_event_id = update.id, update.accepted_id
    if isinstance(outcome, Payload):
        attributes.outcome.success.payloads.append(outcome)
    else:
        attributes.outcome.failure.CopyFrom(outcome)


def _child_initiated(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    command = event.body.start_child_workflow_execution
    attributes = proto.start_child_workflow_execution_initiated_event_attributes
    attributes.namespace, attributes.workflow_id = "default", command.workflow_id
    attributes.workflow_type.name = command.workflow_type
    attributes.input.payloads.extend(command.input)
    attributes.workflow_task_completed_event_id = event.task
    attributes.parent_close_policy = command.parent_close_policy


def _child_started(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    attributes = proto.child_workflow_execution_started_event_attributes
    command = execution.event(event.ref).body.start_child_workflow_execution
    attributes.namespace, attributes.initiated_event_id = "default", event.ref
    attributes.workflow_execution.workflow_id = command.workflow_id
    attributes.workflow_execution.run_id = event.body
    attributes.workflow_type.name = command.workflow_type


def _child_start_failed(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    attributes = proto.start_child_workflow_execution_failed_event_attributes
    attributes.initiated_event_id = event.ref
    attributes.cause = StartChildWorkflowExecutionFailedCause.ValueType(1)
    attributes.workflow_id = event.body.workflow_id


def _child_ended(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    name = event.kind.removeprefix("child_")
    attributes = getattr(proto, f"child_workflow_execution_{name}_event_attributes")
    command = execution.event(event.ref).body.start_child_workflow_execution
    attributes.namespace, attributes.initiated_event_id = "default", event.ref
    attributes.workflow_execution.workflow_id = command.workflow_id
    attributes.workflow_type.name = command.workflow_type
    if event.kind == "child_completed":
        attributes.result.payloads.append(event.body)
    elif event.kind == "child_failed":
        attributes.failure.CopyFrom(event.body.cause)


def _external_signal(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    command = event.body.signal_external_workflow_execution
    attributes = proto.signal_external_workflow_execution_initiated_event_attributes
    attributes.workflow_task_completed_event_id = event.task
    attributes.workflow_execution.CopyFrom(
        type(attributes.workflow_execution)(workflow_id=command.workflow_execution.workflow_id)
    )
    attributes.signal_name = command.signal_name
    attributes.control = str(command.seq)
    attributes.input.payloads.extend(command.args)


def _external_signaled(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    proto.external_workflow_execution_signaled_event_attributes.initiated_event_id = event.ref


def _external_signal_failed(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    attributes = proto.signal_external_workflow_execution_failed_event_attributes
    attributes.initiated_event_id = event.ref
    attributes.cause = SignalExternalWorkflowExecutionFailedCause.ValueType(1)


def _external_cancel(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    command = event.body.request_cancel_external_workflow_execution
    attributes = proto.request_cancel_external_workflow_execution_initiated_event_attributes
    attributes.workflow_task_completed_event_id = event.task
    attributes.workflow_execution.workflow_id = command.workflow_execution.workflow_id
    attributes.control = str(command.seq)


def _external_cancel_done(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    attributes = proto.external_workflow_execution_cancel_requested_event_attributes
    attributes.initiated_event_id = event.ref


def _external_cancel_failed(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    attributes = proto.request_cancel_external_workflow_execution_failed_event_attributes
    attributes.initiated_event_id = event.ref
    attributes.cause = CancelExternalWorkflowExecutionFailedCause.ValueType(1)


def _completed(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    attributes = proto.workflow_execution_completed_event_attributes
    attributes.workflow_task_completed_event_id = event.task
    attributes.result.payloads.append(event.body.complete_workflow_execution.result)


def _failed(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    attributes = proto.workflow_execution_failed_event_attributes
    attributes.workflow_task_completed_event_id = event.task
    attributes.failure.CopyFrom(event.body.fail_workflow_execution.failure)


def _canceled(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    attributes = proto.workflow_execution_canceled_event_attributes
    attributes.workflow_task_completed_event_id = event.task


def _continued(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    attributes = proto.workflow_execution_continued_as_new_event_attributes
    command = event.body.continue_as_new_workflow_execution
    attributes.workflow_task_completed_event_id = event.task
    attributes.new_execution_run_id = execution.next_run_id
    attributes.workflow_type.name = command.workflow_type
    attributes.input.payloads.extend(command.arguments)


def _terminated(proto: HistoryEvent, execution: Execution, event: Event) -> None:
    proto.workflow_execution_terminated_event_attributes.SetInParent()


def _json(data: Any) -> Payload:
    return Payload(metadata={"encoding": b"json/plain"}, data=json.dumps(data).encode())


_KINDS: dict[str, tuple[str, Fill]] = {
    "started": ("WORKFLOW_EXECUTION_STARTED", _started),
    "task_scheduled": ("WORKFLOW_TASK_SCHEDULED", _task_scheduled),
    "task_started": ("WORKFLOW_TASK_STARTED", _task_started),
    "task_completed": ("WORKFLOW_TASK_COMPLETED", _task_completed),
    "task_failed": ("WORKFLOW_TASK_FAILED", _task_failed),
    "task_timed_out": ("WORKFLOW_TASK_TIMED_OUT", _task_timed_out),
    "activity_scheduled": ("ACTIVITY_TASK_SCHEDULED", _activity_scheduled),
    "activity_started": ("ACTIVITY_TASK_STARTED", _activity_started),
    "activity_completed": ("ACTIVITY_TASK_COMPLETED", _activity_completed),
    "activity_failed": ("ACTIVITY_TASK_FAILED", _activity_failed),
    "activity_timed_out": ("ACTIVITY_TASK_TIMED_OUT", _activity_timed_out),
    "activity_cancel_requested": ("ACTIVITY_TASK_CANCEL_REQUESTED", _activity_cancel),
    "activity_canceled": ("ACTIVITY_TASK_CANCELED", _activity_canceled),
    "timer_started": ("TIMER_STARTED", _timer_started),
    "timer_fired": ("TIMER_FIRED", _timer_fired),
    "timer_canceled": ("TIMER_CANCELED", _timer_canceled),
    "local_marker": ("MARKER_RECORDED", _local_marker),
    "patch_marker": ("MARKER_RECORDED", _patch_marker),
    "upserted": ("UPSERT_WORKFLOW_SEARCH_ATTRIBUTES", _upserted),
    "signaled": ("WORKFLOW_EXECUTION_SIGNALED", _signaled),
    "cancel_requested": ("WORKFLOW_EXECUTION_CANCEL_REQUESTED", _cancel_requested),
    "update_accepted": ("WORKFLOW_EXECUTION_UPDATE_ACCEPTED", _update_accepted),
    "update_completed": ("WORKFLOW_EXECUTION_UPDATE_COMPLETED", _update_completed),
    "child_initiated": ("START_CHILD_WORKFLOW_EXECUTION_INITIATED", _child_initiated),
    "child_started": ("CHILD_WORKFLOW_EXECUTION_STARTED", _child_started),
    "child_start_failed": ("START_CHILD_WORKFLOW_EXECUTION_FAILED", _child_start_failed),
    "child_completed": ("CHILD_WORKFLOW_EXECUTION_COMPLETED", _child_ended),
    "child_failed": ("CHILD_WORKFLOW_EXECUTION_FAILED", _child_ended),
    "child_canceled": ("CHILD_WORKFLOW_EXECUTION_CANCELED", _child_ended),
    "child_terminated": ("CHILD_WORKFLOW_EXECUTION_TERMINATED", _child_ended),
    "external_signal_initiated": (
        "SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED",
        _external_signal,
    ),
    "external_signaled": ("EXTERNAL_WORKFLOW_EXECUTION_SIGNALED", _external_signaled),
    "external_signaled_failed": (
        "SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_FAILED",
        _external_signal_failed,
    ),
    "external_cancel_initiated": (
        "REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED",
        _external_cancel,
    ),
    "external_cancel_done": (
        "EXTERNAL_WORKFLOW_EXECUTION_CANCEL_REQUESTED",
        _external_cancel_done,
    ),
    "external_cancel_done_failed": (
        "REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_FAILED",
        _external_cancel_failed,
    ),
    "completed": ("WORKFLOW_EXECUTION_COMPLETED", _completed),
    "failed": ("WORKFLOW_EXECUTION_FAILED", _failed),
    "canceled": ("WORKFLOW_EXECUTION_CANCELED", _canceled),
    "continued_as_new": ("WORKFLOW_EXECUTION_CONTINUED_AS_NEW", _continued),
    "terminated": ("WORKFLOW_EXECUTION_TERMINATED", _terminated),
}
