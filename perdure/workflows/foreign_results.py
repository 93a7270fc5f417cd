"""What others' activities and workflows have answered, as tool results: any value, any failure, and what is neither."""

from __future__ import annotations

from typing import Literal

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
    ChildWorkflowError,
    FailureError,
    TerminatedError,
    TimeoutError,
    TimeoutType,
)

from ..excerpt import one_line
from ..loop.tools import CANCELLED_TEXT
from ..messages import ToolResult
from ..protocol.activities import lost_tool
from ..result_sizes import SizeLimits
from ..tools.foreign.options import ActivityOptions, WorkflowOptions
from ..tools.kind import OutcomeUnknown
from ..tools.results import to_result
from ..valid_text import bounded_text, valid_json
from .failures import WORKER_SHUTDOWN
from .policies import TIMED_OUT

UNKNOWN_OUTCOMES = (TIMED_OUT, "TemporalTimeout:Heartbeat", WORKER_SHUTDOWN, OutcomeUnknown.__name__)
"""Error types of others' activities and workflows that may have taken effect; all else says that it has failed."""
UNKNOWN_EFFECT = "whether it took effect is not known"


def failure(
    name: str,
    text: str,
    *,
    kind: str,
    status: Literal["error", "timeout", "cancelled"] = "error",
    outcome_unknown: bool = False,
) -> ToolResult:
    """A result that says why there is none."""
    text = f"Error: Tool '{name}' failed: {text}"
    return ToolResult.failure(text, kind=kind, status=status, outcome_unknown=outcome_unknown)


def read_result(name: str, value: RawValue | None, max_bytes: int | None) -> ToolResult:
    """The result as it came: text as it is, anything else as JSON, nothing as empty text; bounded in size.

    A payload that can't be read is an error result, and not a failure of the workflow task, which would be for ever.
    """
    limits = SizeLimits() if max_bytes is None else SizeLimits(text_bytes=max_bytes)
    if value is None:
        return to_result("", limits)
    try:
        found = workflow.payload_converter().from_payload(value.payload)
        return to_result(valid_json(found), limits)
    except Exception as error:  # Whatever a stranger's bytes lead to.
        encoding = value.payload.metadata.get("encoding", b"").decode(errors="replace")
        text = (
            f"its result can't be read: its encoding is {one_line(encoding, 100)!r}, of {len(value.payload.data):,} "
            f"bytes ({type(error).__name__}). Expected json/plain, as Temporal's SDKs write it without a codec of "
            "their own. It was executed"
        )
        return failure(name, text, kind="unreadable_result", outcome_unknown=True)


def activity_failure(
    name: str, called: ActivityOptions, error: ActivityError, seconds: float | None, cancelled: bool
) -> ToolResult:
    """What the model is told about an activity that returned no result."""
    cause = error.cause
    if isinstance(cause, TimeoutError):
        return _timed_out(name, called, cause, seconds)
    if isinstance(cause, CancelledError) and cancelled:
        return ToolResult.failure(CANCELLED_TEXT, kind="cancelled", status="cancelled")
    return _failed(name, f"the activity {called.activity!r}", cause or error)


def child_failure(
    name: str, called: WorkflowOptions, error: ChildWorkflowError, over_after: float | None, cancelled: bool
) -> ToolResult:
    """What the model is told about a child workflow that returned no result; it was given up after `over_after` s."""
    cause, what = error.cause, f"the workflow {called.workflow!r}"
    if isinstance(cause, CancelledError) and over_after is not None:
        text = f"timed out after {over_after:g} seconds; {what} was cancelled"
        return failure(name, text, kind="timeout", status="timeout", outcome_unknown=True)
    if isinstance(cause, CancelledError) and cancelled:
        return ToolResult.failure(CANCELLED_TEXT, kind="cancelled", status="cancelled")
    if isinstance(cause, TimeoutError):
        limit = called.execution_timeout or called.run_timeout
        text = f"{what} timed out{f' after {limit:g} seconds' if limit else ''}; {UNKNOWN_EFFECT}"
        return failure(name, text, kind="timeout", status="timeout", outcome_unknown=True)
    if isinstance(cause, TerminatedError):
        text = f"{what} was terminated from outside; {UNKNOWN_EFFECT}"
        return failure(name, text, kind="terminated", outcome_unknown=True)
    return _failed(name, what, cause or error)


def _timed_out(name: str, called: ActivityOptions, cause: TimeoutError, seconds: float | None) -> ToolResult:
    match cause.type:
        case TimeoutType.SCHEDULE_TO_START:
            wait = called.schedule_to_start_timeout
            text = (
                f"no worker of the task queue {called.task_queue!r} took the activity {called.activity!r} within "
                f"{wait:g} s, so it was not executed"
            )
            return failure(name, text, kind="no_worker")
        case TimeoutType.HEARTBEAT:
            return lost_tool(name)
        case TimeoutType.SCHEDULE_TO_CLOSE:
            seconds = called.schedule_to_close_timeout or seconds
    last = cause.cause
    text = f"timed out after {seconds or 0:g} seconds; {UNKNOWN_EFFECT}"
    if isinstance(last, ApplicationError):
        text = f"{text}. Its last failure: {_described(last)}"
    return failure(name, text, kind="timeout", status="timeout", outcome_unknown=True)


def _failed(name: str, what: str, cause: BaseException) -> ToolResult:
    if isinstance(cause, CancelledError):
        return failure(name, f"{what} was cancelled, and not by this run", kind="cancelled", outcome_unknown=True)
    kind = cause.type if isinstance(cause, ApplicationError) and cause.type else "error"
    unknown = not isinstance(cause, ApplicationError) or kind in UNKNOWN_OUTCOMES
    return failure(name, _described(cause), kind=bounded_text(kind, 200), outcome_unknown=unknown)


def _described(error: BaseException) -> str:
    """Type and message of a failure, and those of what caused it."""
    texts: list[str] = []
    found: BaseException | None = error
    while found is not None and len(texts) < 5:
        message = found.message if isinstance(found, FailureError) else str(found)
        type_ = found.type if isinstance(found, ApplicationError) else None
        texts.append(f"{type_}: {message}" if type_ else message)
        found = found.__cause__
    return bounded_text(", caused by ".join(dict.fromkeys(texts)))
