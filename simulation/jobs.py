"""The jobs of activations, made from events as the SDK's Core makes them."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.bridge.proto.activity_result import ActivityResolution
from temporalio.bridge.proto.child_workflow import StartChildWorkflowExecutionFailedCause
from temporalio.bridge.proto.workflow_activation import (
    WorkflowActivation,
    WorkflowActivationJob,
)

from .commands import Command
from .history import Event, Execution, Start, Update

_EXISTS = StartChildWorkflowExecutionFailedCause.ValueType(1)


def initialize(execution: Execution, event: Event) -> WorkflowActivationJob:
    """Return the job that begins a workflow."""
    start: Start = event.body
    job = WorkflowActivationJob()
    begin = job.initialize_workflow
    begin.workflow_type, begin.workflow_id, begin.attempt = start.type, execution.id, 1
    begin.arguments.extend(start.input)
    seed = blake2b(execution.run_id.encode(), digest_size=8).digest()
    begin.randomness_seed = int.from_bytes(seed, "big")
    begin.first_execution_run_id = start.first_run_id
    begin.original_execution_run_id = execution.run_id
    begin.continued_from_execution_run_id = start.continued_run_id
    begin.workflow_task_timeout.FromNanoseconds(int(start.task_timeout * 1e9))
    begin.start_time.FromNanoseconds(int(event.time * 1e9))
    for name, payload in start.memo.items():
        begin.memo.fields[name].CopyFrom(payload)
    if start.attributes is not None:
        begin.search_attributes.CopyFrom(start.attributes)
    if start.parent is not None:
        parent = begin.parent_workflow_info
        parent.namespace, parent.workflow_id, parent.run_id = "default", *start.parent
    return job


def signal(name: str, input: Sequence[Payload], event: int) -> WorkflowActivationJob:
    """Return the job of a signal."""
    job = WorkflowActivationJob()
    job.signal_workflow.signal_name = name
    job.signal_workflow.input.extend(input)
    job.signal_workflow.originating_event_id = event
    return job


def cancel(reason: str) -> WorkflowActivationJob:
    """Return the job of a request to cancel."""
    job = WorkflowActivationJob()
    job.cancel_workflow.reason = reason
    return job


def patch(id: str) -> WorkflowActivationJob:
    """Return the job that announces a patch of the history."""
    job = WorkflowActivationJob()
    job.notify_has_patch.patch_id = id
    return job


def update(update: Update, *, run_validator: bool) -> WorkflowActivationJob:
    """Return the job of an update."""
    job = WorkflowActivationJob()
    do = job.do_update
    do.id = do.protocol_instance_id = do.meta.update_id = update.id
    do.name, do.run_validator = update.name, run_validator
    do.input.extend(update.input)
    return job


def query(id: str, name: str, arguments: Sequence[Payload]) -> WorkflowActivationJob:
    """Return the job of a query."""
    job = WorkflowActivationJob()
    job.query_workflow.query_id, job.query_workflow.query_type = id, name
    job.query_workflow.arguments.extend(arguments)
    return job


def resolve_activity(
    seq: int, result: ActivityResolution, *, is_local: bool = False
) -> WorkflowActivationJob:
    """Return the job of an activity's end."""
    job = WorkflowActivationJob()
    resolve = job.resolve_activity
    resolve.seq, resolve.is_local = seq, is_local
    resolve.result.CopyFrom(result)
    return job


def completed(result: Payload | None) -> ActivityResolution:
    """Return the end of an activity with a result."""
    resolution = ActivityResolution()
    resolution.completed.SetInParent()
    if result is not None:
        resolution.completed.result.CopyFrom(result)
    return resolution


def failed(failure: Failure) -> ActivityResolution:
    """Return the end of an activity that failed or timed out."""
    resolution = ActivityResolution()
    resolution.failed.failure.CopyFrom(failure)
    return resolution


def cancelled(failure: Failure) -> ActivityResolution:
    """Return the end of an activity that was cancelled."""
    resolution = ActivityResolution()
    resolution.cancelled.failure.CopyFrom(failure)
    return resolution


def of_resolution(event: Event, command: Command) -> WorkflowActivationJob:
    """Return the job of an event that resolves a command."""
    job = WorkflowActivationJob()
    seq, body = command.seq, event.body
    match event.kind:
        case "activity_completed":
            return resolve_activity(seq, completed(body))
        case "activity_failed" | "activity_timed_out":
            return resolve_activity(seq, failed(body))
        case "timer_fired":
            job.fire_timer.seq = seq
        case "child_started":
            job.resolve_child_workflow_execution_start.seq = seq
            job.resolve_child_workflow_execution_start.succeeded.run_id = body
        case "child_start_failed":
            start = job.resolve_child_workflow_execution_start
            start.seq, start.failed.cause = seq, _EXISTS
            start.failed.workflow_id = body.workflow_id
            start.failed.workflow_type = body.workflow_type
        case "child_completed":
            job.resolve_child_workflow_execution.seq = seq
            job.resolve_child_workflow_execution.result.completed.result.CopyFrom(body)
        case "child_failed" | "child_terminated":
            job.resolve_child_workflow_execution.seq = seq
            job.resolve_child_workflow_execution.result.failed.failure.CopyFrom(body)
        case "child_canceled":
            job.resolve_child_workflow_execution.seq = seq
            job.resolve_child_workflow_execution.result.cancelled.failure.CopyFrom(body)
        case "external_signaled":
            job.resolve_signal_external_workflow.seq = seq
        case "external_signaled_failed":
            job.resolve_signal_external_workflow.seq = seq
            job.resolve_signal_external_workflow.failure.CopyFrom(body)
        case "external_cancel_done":
            job.resolve_request_cancel_external_workflow.seq = seq
        case "external_cancel_done_failed":
            job.resolve_request_cancel_external_workflow.seq = seq
            job.resolve_request_cancel_external_workflow.failure.CopyFrom(body)
        case other:
            raise NotImplementedError(other)
    return job


def text_of(failure: Failure) -> str:
    """Return a failure's text, with its causes and the innermost stack trace."""
    parts, stack = [], ""
    while True:
        parts.append(failure.message)
        stack = failure.stack_trace or stack
        if not failure.HasField("cause"):
            return f"{' <- '.join(parts)}\n{stack}"
        failure = failure.cause


def started_of(activation: WorkflowActivation) -> WorkflowActivationJob | None:
    """Return the job that begins the workflow; None in later activations."""
    for job in activation.jobs:
        if job.HasField("initialize_workflow"):
            return job
    return None
