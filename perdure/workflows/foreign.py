"""Executes tool calls with activities and workflows of other workers, in any language, and turns
their outcomes into results.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal

from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
    ChildWorkflowError,
    FailureError,
    TerminatedError,
    TimeoutType,
    WorkflowAlreadyStartedError,
)
from temporalio.exceptions import TimeoutError as TemporalTimeoutError
from temporalio.workflow import ActivityCancellationType, ChildWorkflowHandle, ParentClosePolicy

from ..json_types import JsonObject
from ..loop.effects import Cancelled
from ..messages import ToolResult
from ..options import MIN_SECONDS
from ..protocol.activities import WORKER_SHUTDOWN, lost_tool
from ..text import bounded_text, one_line, valid_json
from ..tool_calls import ChildWorkflow, ForeignActivity, ToolRequest, ToolSpec
from ..tool_results import SizeLimits
from ..tools.foreign import (
    ActivityOptions,
    CallOptions,
    WorkflowOptions,
    complete_arguments,
    sent_arguments,
)
from ..tools.kind import OutcomeUnknown
from ..tools.results import to_result
from ..tools.signature import InvalidArguments
from .child_runs import child_id, child_result
from .policies import NO_RETRY, START_TO_CLOSE, TOOL_RETRIES
from .recording import uncompressed_bytes
from .run_state import RunState
from .ui import call_summary
from .waiting import wait_until, wait_until_done

UNKNOWN_OUTCOMES = (
    START_TO_CLOSE,
    "TemporalTimeout:Heartbeat",
    WORKER_SHUTDOWN,
    OutcomeUnknown.__name__,
)
"""Error types of foreign activities and workflows that may have taken effect; any other type means
failure."""


def failure(
    name: str,
    text: str,
    *,
    kind: str,
    status: Literal["error", "timeout", "cancelled"] = "error",
    outcome_unknown: bool = False,
) -> ToolResult:
    """Return an error result with the reason."""
    text = f"Error: Tool '{name}' failed: {text}"
    return ToolResult.failure(text, kind=kind, status=status, outcome_unknown=outcome_unknown)


def read_result(name: str, value: RawValue | None, max_bytes: int | None) -> ToolResult:
    """Return the result: text unchanged, other values as JSON, nothing as empty text; bounded in
    size.

    An unreadable payload becomes an error result. A failure of the workflow task would repeat for
    ever.
    """
    limits = SizeLimits() if max_bytes is None else SizeLimits(text_bytes=max_bytes)
    if value is None:
        return to_result("", limits)
    try:
        found = workflow.payload_converter().from_payload(value.payload)
        return to_result(valid_json(found), limits)
    except Exception as error:  # Foreign bytes can raise any exception.
        encoding = value.payload.metadata.get("encoding", b"").decode(errors="replace")
        text = (
            f"its result can't be read: its encoding is {one_line(encoding, 100)!r}, of "
            f"{len(value.payload.data):,} bytes ({type(error).__name__}). Expected json/plain, as "
            "Temporal's SDKs write it without a codec of their own. It was executed"
        )
        return failure(name, text, kind="unreadable_result", outcome_unknown=True)


def activity_failure(
    name: str, called: ActivityOptions, error: ActivityError, seconds: float, cancelled: bool
) -> ToolResult:
    """Return the model's error result for an activity that returned no result."""
    cause = error.cause
    if isinstance(cause, TemporalTimeoutError):
        return _timeout_of(name, called, cause, seconds)
    if isinstance(cause, CancelledError) and cancelled:
        return ToolResult.cancellation(outcome_unknown=True)
    return _failure_of(name, f"the activity {called.activity!r}", cause or error)


def child_failure(
    name: str,
    called: WorkflowOptions,
    error: ChildWorkflowError,
    over_after: float | None,
    cancelled: bool,
) -> ToolResult:
    """Return the model's error result for a child workflow that returned no result, given up after
    `over_after` seconds.
    """
    cause, what = error.cause, f"the workflow {called.workflow!r}"
    if isinstance(cause, CancelledError) and over_after is not None:
        text = f"timed out after {over_after:g} seconds; {what} was cancelled"
        return failure(name, text, kind="timeout", status="timeout", outcome_unknown=True)
    if isinstance(cause, CancelledError) and cancelled:
        return ToolResult.cancellation(outcome_unknown=True)
    if isinstance(cause, TemporalTimeoutError):
        limit = called.execution_timeout
        text = f"{what} timed out{f' after {limit:g} seconds' if limit else ''}"
        return failure(name, text, kind="timeout", status="timeout", outcome_unknown=True)
    if isinstance(cause, TerminatedError):
        return failure(
            name, f"{what} was terminated from outside", kind="terminated", outcome_unknown=True
        )
    return _failure_of(name, what, cause or error)


def _timeout_of(
    name: str, called: ActivityOptions, cause: TemporalTimeoutError, seconds: float
) -> ToolResult:
    match cause.type:
        case TimeoutType.SCHEDULE_TO_START:
            wait = called.schedule_to_start_timeout
            text = (
                f"no worker of the task queue {called.task_queue!r} took the activity "
                f"{called.activity!r} within {wait:g} s, so it was not executed"
            )
            return failure(name, text, kind="no_worker")
        case TimeoutType.HEARTBEAT:
            return lost_tool(name)
    last = cause.cause
    text = f"timed out after {seconds:g} seconds"
    if isinstance(last, ApplicationError):
        text = f"{text}. Its last failure: {_description_of(last)}"
    return failure(name, text, kind="timeout", status="timeout", outcome_unknown=True)


def _failure_of(name: str, what: str, cause: BaseException) -> ToolResult:
    if isinstance(cause, CancelledError):
        return failure(
            name,
            f"{what} was cancelled, and not by this run",
            kind="cancelled",
            outcome_unknown=True,
        )
    kind = cause.type if isinstance(cause, ApplicationError) and cause.type else "error"
    unknown = not isinstance(cause, ApplicationError) or kind in UNKNOWN_OUTCOMES
    return failure(
        name, _description_of(cause), kind=bounded_text(kind, 200), outcome_unknown=unknown
    )


def _description_of(error: BaseException) -> str:
    """Return type and message of a failure and of its causes."""
    texts: list[str] = []
    found: BaseException | None = error
    while found is not None and len(texts) < 5:
        message = found.message if isinstance(found, FailureError) else str(found)
        type_ = found.type if isinstance(found, ApplicationError) else None
        texts.append(f"{type_}: {message}" if type_ else message)
        found = found.__cause__
    return bounded_text(", caused by ".join(dict.fromkeys(texts)))


MAX_ARGUMENT_BYTES = 192 * 1024
"""Small enough to be neither compressed nor stored outside Temporal: other SDKs could not read
that."""

FAILED_RETRIES = replace(TOOL_RETRIES, non_retryable_error_types=list(UNKNOWN_OUTCOMES))
"""Retries of a call that is not idempotent."""

Handle = ChildWorkflowHandle[Any, RawValue]

_REUSE = {
    "allowDuplicate": WorkflowIDReusePolicy.ALLOW_DUPLICATE,
    "allowDuplicateFailedOnly": WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
    "rejectDuplicate": WorkflowIDReusePolicy.REJECT_DUPLICATE,
}


@dataclass(frozen=True)
class ForeignCall:
    """One call that another worker executes. Every outcome there becomes its result."""

    request: ToolRequest
    spec: ToolSpec
    state: RunState

    async def run_activity(self, execution: ForeignActivity) -> ToolResult:
        """Return the result of an activity of that type, executed once unless the declaration says
        otherwise.
        """
        called = ActivityOptions.model_validate(execution.options)
        try:
            arguments = self._arguments(called)
        except ValueError as error:
            return self._refusal(error)
        handle = workflow.start_activity(
            called.activity,
            args=sent_arguments(called, arguments),
            task_queue=called.task_queue,
            result_type=RawValue,
            activity_id=f"{self.request.iteration}-{self.request.index}",
            schedule_to_start_timeout=timedelta(seconds=called.schedule_to_start_timeout),
            start_to_close_timeout=_duration(self._attempt_seconds(called)),
            heartbeat_timeout=_duration(called.heartbeat_timeout),
            retry_policy=self._retry_policy(),
            cancellation_type=ActivityCancellationType.TRY_CANCEL,
            summary=call_summary(self.request),
        )
        grace, why = self.state.options.cancel_grace, "grace period of a running tool"
        if not await wait_until_done(handle, self.state, grace=grace, why=why):
            handle.cancel()
        try:
            return read_result(self.request.name, await handle, self.spec.max_result)
        except ActivityError as error:
            return activity_failure(
                self.request.name,
                called,
                error,
                self._attempt_seconds(called),
                self.state.cancelled,
            )

    async def run_workflow(self, execution: ChildWorkflow) -> ToolResult:
        """Return the result of a child workflow of that type."""
        called = WorkflowOptions.model_validate(execution.options)
        try:
            arguments = self._arguments(called)
            id = called.filled_id(arguments) or child_id(self.request)
        except ValueError as error:
            return self._refusal(error)
        try:
            handle: Handle = await workflow.start_child_workflow(
                called.workflow,
                args=sent_arguments(called, arguments),
                id=id,
                task_queue=called.task_queue,
                result_type=RawValue,
                id_reuse_policy=_REUSE[called.id_reuse_policy],
                parent_close_policy=ParentClosePolicy.REQUEST_CANCEL,
                execution_timeout=_duration(called.execution_timeout),
                retry_policy=self._retry_policy(),
                static_summary=call_summary(self.request),
            )
        except WorkflowAlreadyStartedError:
            text = (
                f"a workflow {id!r} is running, or has run and idReusePolicy is "
                f"{called.id_reuse_policy}"
            )
            return failure(self.request.name, text, kind="already_started")
        return await self._wait_for_result(handle, called)

    async def _wait_for_result(self, handle: Handle, called: WorkflowOptions) -> ToolResult:
        """Wait for the child until its time is over, and then cancel it."""
        name, limit = self.request.name, self._workflow_seconds(called)
        await wait_until(
            lambda: handle.done() or self.state.cancelled, limit, "time-out of a child workflow"
        )
        is_over = not handle.done() and not self.state.cancelled
        try:
            value = await child_result(
                handle, lambda: is_over or self.state.cancelled, grace=self._grace(is_over)
            )
        except ChildWorkflowError as error:
            return child_failure(
                name, called, error, limit if is_over else None, self.state.cancelled
            )
        except Cancelled:
            if not is_over:
                return ToolResult.cancellation(outcome_unknown=True)
            text = (
                f"timed out after {limit:g} seconds; the workflow {handle.id!r} was asked to end, "
                "and has not ended yet"
            )
            return failure(name, text, kind="timeout", status="timeout", outcome_unknown=True)
        return read_result(name, value, self.spec.max_result)

    def _arguments(self, called: CallOptions) -> JsonObject:
        """Return the arguments. Raises ValueError if they do not match, and if they exceed the size
        of one payload.
        """
        arguments = complete_arguments(called, self.request.arguments)
        if (size := uncompressed_bytes(arguments)) > MAX_ARGUMENT_BYTES:
            raise InvalidArguments(
                [f"they take {size:,} bytes together, at most {MAX_ARGUMENT_BYTES:,} are possible"]
            )
        return arguments

    def _refusal(self, error: ValueError) -> ToolResult:
        text = f"Error: Invalid arguments for tool '{self.request.name}': {error}"
        return ToolResult.failure(text, kind="invalid_arguments")

    def _grace(self, is_over: bool) -> float:
        return 0.0 if is_over else self.state.options.cancel_grace

    def _attempt_seconds(self, called: ActivityOptions) -> float:
        """Return the start-to-close time-out."""
        given = (called.start_to_close_timeout, self.spec.timeout)
        return min(filter(None, given), default=self.state.options.tool_timeout)

    def _workflow_seconds(self, called: WorkflowOptions) -> float | None:
        """Return the seconds until the child is cancelled; None where Temporal ends it by the
        declared time-outs.
        """
        if called.execution_timeout is not None:
            return self.spec.timeout
        return self.spec.timeout or self.state.options.tool_timeout

    def _retry_policy(self) -> RetryPolicy:
        """Return the retry policy: one attempt, unless the declaration sets a number or marks the
        tool idempotent.
        """
        policy = TOOL_RETRIES if self.spec.idempotent else NO_RETRY
        if self.spec.retries:
            policy = policy if self.spec.idempotent else FAILED_RETRIES
            policy = replace(policy, maximum_attempts=self.spec.retries + 1)
        return policy


def _duration(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=max(seconds, MIN_SECONDS))
