"""Time-outs and retry policies of activities, and the meaning of their failures."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, cast

from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError, TimeoutType
from temporalio.exceptions import TimeoutError as TemporalTimeoutError

from ..errors import ConfigurationError, ModelError, ModelErrorKind
from ..messages import ToolResult
from ..options import OWN_SERVER_INTERVALS
from ..payloads.storage.files import NOT_STORED
from ..protocol.activities import (
    CONFIGURATION_ERROR,
    INTERNAL_ERROR,
    MODEL_ERROR,
    NOT_EXECUTED,
    WORKER_LOST,
    WORKER_SHUTDOWN,
    CallSoFar,
    ModelFailure,
    StreamedText,
    lost_tool,
)

HEARTBEAT_TIMEOUT = timedelta(seconds=OWN_SERVER_INTERVALS.lost_worker_seconds)
"""Temporal notices a lost worker this long after the last heartbeat of a short activity that costs
nothing."""
WORKFLOW_TASK_TIMEOUT = timedelta(seconds=8)
"""Temporal notices a worker lost during a workflow task after this time."""
MARGIN = timedelta(seconds=15)
"""Activities enforce their time-outs themselves. Temporal's time-outs come this much later, as a
fallback."""


START_TO_CLOSE = "TemporalTimeout:StartToClose"
"""Temporal's error type of an activity that took too long on a live worker: a retry would take too
long again."""


def _attempts(maximum: int, *, final: tuple[str, ...] = (START_TO_CLOSE,)) -> RetryPolicy:
    return RetryPolicy(
        non_retryable_error_types=list(final),
        initial_interval=timedelta(milliseconds=200),
        backoff_coefficient=2.0,
        maximum_interval=timedelta(seconds=10),
        maximum_attempts=maximum,
    )


LOST_WORKER_RETRIES = _attempts(10)
"""For failures of the platform, such as a killed worker or a lost connection to the server.
Temporal never retries after a provider's or a tool's answer: the loop decides about that.
"""

MOMENTARY_RETRIES = _attempts(10, final=())
"""The same for a short activity without heartbeats: its time-out indicates a lost worker."""

PACED_RETRIES = _attempts(1)
"""For a model call with a permit: a further attempt takes another permit."""

TOOL_RETRIES = _attempts(5)
"""The same for repeatable calls that other workers execute: fewer, because the call itself may
crash its workers."""

SUSPECT_RETRIES = _attempts(40)
"""For a repeatable tool whose starts its workers count: the other attempts wait for a turn or
follow a failure of the platform.
"""

COMPACTION_RETRIES = _attempts(3)
"""For any failure of a compactor: after these attempts, the built-in summary replaces it
(§13.3)."""

OFFERED_RETRIES = _attempts(60)
"""For an activity that is offered to other workers: most attempts are refusals, about 35 per
minute."""

NO_RETRY = RetryPolicy(maximum_attempts=1)

_BUGS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    RuntimeError,
    TypeError,
    ValueError,
)


class _OfBugs(type):
    def __instancecheck__(cls, error: object) -> bool:
        # The SDK wraps any decoding error in a RuntimeError.
        return isinstance(error, _BUGS) and not isinstance(error.__cause__, ConfigurationError)


class Bug(Exception, metaclass=_OfBugs):
    """Matches any exception from a bug of perdure, and none that reports a value that this worker
    can't read.
    """


BUGS = (Bug,)
"""Exceptions that fail the run, with their text. Any other exception, such as non-determinism after
a bad deployment, or a value encrypted with a key that this worker lacks, fails only the workflow
task: the run waits for a worker that can continue.
"""


class CompactionError(Exception):
    """The compactor failed; the text gives the reason."""


def timed_out(error: ActivityError) -> bool:
    """Return whether the activity took too long on a live worker."""
    return (
        isinstance(error.cause, TemporalTimeoutError)
        and error.cause.type == TimeoutType.START_TO_CLOSE
    )


def worker_was_lost(error: ActivityError) -> bool:
    """Return whether the activity ended without a result because each of its workers was lost or
    stopped.
    """
    cause = error.cause
    if isinstance(cause, TemporalTimeoutError):
        return cause.type == TimeoutType.HEARTBEAT
    return isinstance(cause, ApplicationError) and cause.type == WORKER_SHUTDOWN


def left_by(error: ActivityError, before: CallSoFar | None, attempts: int) -> CallSoFar | None:
    """Return the state for the activity that repeats a model call whose `attempts` were all lost
    with their workers.
    """
    cause = error.cause
    details: Sequence[Any] = ()
    if isinstance(cause, TemporalTimeoutError):
        details = cause.last_heartbeat_details
    elif isinstance(cause, ApplicationError):
        details = cause.details
    return left_in(details, before, attempts)


def left_in(details: Sequence[Any], before: CallSoFar | None, attempts: int) -> CallSoFar | None:
    """Return the state as `left_by` does, from the last attempt's heartbeat details."""
    text = (
        StreamedText.model_validate(details[0])
        if details and isinstance(details[0], dict)
        else None
    )
    left = (text and text.so_far) or (before or CallSoFar()).model_copy(update={"attempt": 1})
    return left.with_lost(attempts - left.attempt + 1, text.chars if text else 0)


def model_error(error: ActivityError) -> ModelError | None:
    """Return the error of the model call; None if the activity failed for another reason."""
    cause = error.cause
    if isinstance(cause, ApplicationError) and cause.type == MODEL_ERROR:
        failure = ModelFailure.model_validate(cause.details[0])
        known = ModelError(
            cause.message,
            kind=cast(ModelErrorKind, failure.kind),
            provider=failure.provider,
            status=failure.status,
            request_id=failure.request_id,
            retry_after=failure.retry_after,
            address=failure.address,
            model=failure.model,
        )
        known.limit, known.asked = failure.limit, failure.asked
        known.usage, known.cost_usd, known.so_far = failure.usage, failure.cost_usd, failure.so_far
        return known
    if isinstance(cause, ApplicationError) and cause.type == CONFIGURATION_ERROR:
        return ModelError(cause.message, kind="configuration", provider="perdure")
    if isinstance(cause, ApplicationError) and cause.type == NOT_STORED:
        return ModelError(
            f"the model's answer is lost: {cause.message}", kind="server", provider="perdure"
        )
    if timed_out(error):
        return ModelError("the model call timed out", kind="timeout", provider="perdure")
    return None


def failed_result(name: str, error: ActivityError, timeout: float) -> ToolResult:
    """Return the model's error result for an execution that returned no result."""
    cause = error.cause
    prefix = f"Error: Tool '{name}' failed:"
    if isinstance(cause, CancelledError):
        return ToolResult.cancellation(outcome_unknown=True)
    if timed_out(error):
        text = f"{prefix} timed out after {timeout:g} seconds"
        return ToolResult.failure(text, kind="timeout", status="timeout", outcome_unknown=True)
    if isinstance(cause, TemporalTimeoutError) or worker_was_lost(error):
        return lost_tool(name)
    if isinstance(cause, ApplicationError):
        unknown = cause.type not in NOT_EXECUTED
        return ToolResult.failure(
            f"{prefix} {cause.message}", kind=cause.type or "error", outcome_unknown=unknown
        )
    return ToolResult.failure(f"{prefix} {error}", kind="error", outcome_unknown=True)


_WITHOUT_TEXT = "Application error"
"""The message that Temporal's SDK gives to an error without a text."""


def describe_failure(error: BaseException) -> tuple[str, str]:
    """Return the kind and the text of a `RunError` for the error; a failed activity has those of
    its cause.
    """
    cause = error.cause if isinstance(error, ActivityError) and error.cause else error
    if isinstance(cause, ApplicationError):
        kind = cause.type or INTERNAL_ERROR
        return kind, kind if cause.message == _WITHOUT_TEXT else cause.message
    if isinstance(error, ActivityError) and timed_out(error):
        return "timeout", f"{error.activity_type} took too long"
    if isinstance(error, ActivityError) and isinstance(cause, TemporalTimeoutError):
        return (
            WORKER_LOST,
            f"{error.activity_type} was given up: each worker that tried was lost, or did not "
            "answer",
        )
    return INTERNAL_ERROR, f"{type(cause).__name__}: {cause}"
