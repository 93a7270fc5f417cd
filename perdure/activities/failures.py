"""How errors leave an activity; how an attempt learns of earlier ones; suspects, the calls that
were lost too often.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import copy_context
from dataclasses import asdict, dataclass, fields, replace
from datetime import timedelta
from typing import Any, NamedTuple

from temporalio import activity
from temporalio.api.enums.v1 import TimeoutType
from temporalio.api.failure.v1 import Failure
from temporalio.client import (
    AsyncActivityCancelledError,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
)
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError, RPCStatusCode

from ..conversation import DigestMismatchError
from ..errors import ConfigurationError, InvokerError, ModelError, RunError
from ..json_types import JsonObject
from ..loop.failed_calls import may_pass
from ..payloads.failures import text_of
from ..protocol import activities
from ..protocol.activities import NOT_HERE, SUSPECT_WAITS, WORKER_SHUTDOWN, Offer
from ..protocol.inventory import MissingPart
from ..redaction import get_logger, redact, redacted_excerpt
from ..text import bounded_text, one_line
from ..tool_calls import progress_of
from .heartbeat import HEART_FAILED, seconds_since_given

_log = get_logger("perdure.runs")
_BENIGN = ApplicationErrorCategory.BENIGN


def typed_failures() -> _TypedFailures:
    """Turn errors of the block into a non-retryable `ApplicationError` of a type that the workflow
    knows.

    Errors of the platform pass through, so that Temporal retries: a history that is unreadable for
    now or incomplete.
    """
    return _TYPED


class _TypedFailures:
    def __enter__(self) -> None:
        """Do nothing before the block."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, ModelError):
            # Without its cause: the provider's text may contain its key.
            raise _model_failure(error) from None
        if isinstance(error, ConfigurationError | InvokerError):
            raise _failure(str(error), activities.CONFIGURATION_ERROR) from _short(error)
        if isinstance(error, RunError):
            raise _failure(str(error), error.kind) from _short(error)
        if isinstance(error, Exception) and not isinstance(
            error, RPCError | DigestMismatchError | ApplicationError
        ):
            raise _failure(
                f"{type(error).__name__}: {error}", activities.INTERNAL_ERROR
            ) from _short(error)


_TYPED = _TypedFailures()


def _failure(text: str, type: str) -> ApplicationError:
    return ApplicationError(bounded_text(redacted_excerpt(text)), type=type, non_retryable=True)


def _short(error: Exception) -> Exception | None:
    """Return the error as a cause, which is recorded whole; None if its text or a cause's text is
    too long.
    """
    cause: BaseException | None = error
    while cause is not None:
        if str(cause) != bounded_text(str(cause)):
            return None
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return error


def _model_failure(error: ModelError) -> ApplicationError:
    failure = activities.ModelFailure(
        kind=error.kind,
        provider=error.provider,
        status=error.status,
        request_id=error.request_id,
        retry_after=error.retry_after,
        address=error.address,
        model=error.model,
        limit=error.limit,
        asked=error.asked,
        usage=error.usage,
        cost_usd=error.cost_usd,
        so_far=error.so_far,
    )
    # An error that may pass, or that the run can work around, is expected: it stays out of error
    # logs and failure metrics.
    is_expected = may_pass(error.kind) or error.kind in ("no_tools", "context_length")
    category = (
        ApplicationErrorCategory.BENIGN if is_expected else ApplicationErrorCategory.UNSPECIFIED
    )
    return ApplicationError(
        bounded_text(error.message),
        failure,
        type=activities.MODEL_ERROR,
        non_retryable=True,
        category=category,
    )


FIRST_WAIT, LONGEST_WAIT, GROWTH = 0.05, 5.0, 0.2
"""Seconds before another worker is offered the activity: a fifth of the time passed, about 35
offers in a minute."""


def refusal(lacking: MissingPart, offer: Offer | None) -> ApplicationError:
    """Return the error of an activity whose worker lacks something.

    The error is final if the activity is not offered to other workers, or its time for offers has
    passed. Otherwise Temporal retries it on any worker of the queue.
    """
    info = activity.info()
    waited = (info.current_attempt_scheduled_time - info.scheduled_time).total_seconds()
    left = offer.seconds - waited if offer else 0.0
    starts = known_starts(offer).starts if offer else info.attempt - 1
    return ApplicationError(
        lacking.text,
        lacking.model_copy(update={"starts": starts}),
        type=NOT_HERE,
        non_retryable=left <= 0,
        next_retry_delay=timedelta(
            seconds=min(max(FIRST_WAIT, GROWTH * waited), LONGEST_WAIT, left)
        ),
        category=_BENIGN,
    )


async def cancelled_while_late() -> bool:
    """Return whether the run was cancelled, for an attempt that this worker got long ago; False for
    a fresh one.

    A process that was suspended, such as on a sleeping machine, finds such attempts: the server may
    have timed the attempt out and given the next one to another worker. A heartbeat shows whether
    the attempt still counts. Raises RPCError, and ApplicationError for an attempt that the server
    has timed out.
    """
    info = activity.info()
    late = seconds_since_given(info)
    if info.heartbeat_timeout is None or late < info.heartbeat_timeout.total_seconds():
        return False
    try:
        await (
            activity.client()
            .get_async_activity_handle(task_token=info.task_token)
            .heartbeat(*info.heartbeat_details)
        )
    except AsyncActivityCancelledError as cancelled:
        if cancelled.details is None or cancelled.details.cancel_requested:
            return True
        raise ApplicationError(
            "An operator has paused this call, or reset it", category=_BENIGN
        ) from None
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        _log.warning(
            "Run %s: %s does not begin: this worker got the attempt %.0f s ago, and the server has "
            "dropped it",
            *(info.workflow_id, info.activity_type, late),
            extra={"run": info.workflow_id, "attempt": info.attempt},
        )
        raise ApplicationError(
            "The server has given this attempt up", non_retryable=True, category=_BENIGN
        ) from None
    return False


class PreviousAttempt(NamedTuple):
    """The findings of a later attempt, or of a late one, before it begins."""

    is_cancelled: bool = False
    """Whether the run was cancelled."""
    was_lost: bool = False
    """Whether the previous attempt ended because its worker was lost or shut down."""
    was_killed: bool = False
    """Whether its worker was lost."""


async def inspect_previous_attempt() -> PreviousAttempt:
    """Return the fate of the run and of the previous attempt. A cancelled run starts nothing more.

    Sends the server one request on a later or late attempt, otherwise none. The workflow would
    cancel the activity, but may itself have had no worker. Raises as `cancelled_while_late`.
    """
    info = activity.info()
    is_cancelled = await cancelled_while_late()
    if info.attempt == 1:
        return PreviousAttempt(is_cancelled)
    assert info.workflow_id is not None
    about = {"run": info.workflow_id, "attempt": info.attempt}
    handle = activity.client().get_workflow_handle(info.workflow_id, run_id=info.workflow_run_id)
    description = await handle.describe()
    failure = _last_failure(description)
    # Offers to other workers log a line of their own when they begin.
    level = (
        logging.DEBUG
        if failure and failure.application_failure_info.type == NOT_HERE
        else logging.WARNING
    )
    if _log.isEnabledFor(level):
        _log.log(
            level,
            "Run %s: %s is tried again (attempt %d)%s",
            *(info.workflow_id, info.activity_type, info.attempt, await _why(failure)),
            extra=about,
        )
    is_cancelled = description.raw_description.workflow_extended_info.cancel_requested
    if failure is None:
        return PreviousAttempt(is_cancelled)
    is_killed = failure.timeout_failure_info.timeout_type == TimeoutType.TIMEOUT_TYPE_HEARTBEAT
    was_lost = is_killed or failure.application_failure_info.type in (WORKER_SHUTDOWN, HEART_FAILED)
    return PreviousAttempt(is_cancelled, was_lost, is_killed)


def _last_failure(described: WorkflowExecutionDescription) -> Failure | None:
    """Return the failure of the previous attempt; None if the server does not have it."""
    for pending in described.raw_description.pending_activities:
        if pending.activity_id == activity.info().activity_id and pending.HasField("last_failure"):
            return pending.last_failure
    return None


async def _why(failure: Failure | None) -> str:
    """Return why the previous attempt failed; "" if unknown."""
    if failure is None:
        return ""
    try:
        text = await text_of(activity.client().data_converter, failure)
    except ConfigurationError as problem:
        text = str(problem)
    return f": {one_line(redact(text), 300)}"


def asked_from_anywhere() -> Callable[[], Awaitable[bool]]:
    """Return the current activity's `superseded`, callable from any thread, task or callback."""
    context = copy_context()

    async def ask() -> bool:
        return await asyncio.get_running_loop().create_task(superseded(), context=context)

    return ask


async def superseded() -> bool:
    """Return whether this activity was cancelled because another attempt continues it, not because
    its run is over.

    Sends the server a request if the cancellation does not give the reason.
    """
    details = activity.cancellation_details()
    if details is None or details.cancel_requested:
        return False
    if details.worker_shutdown:
        return True
    # The server no longer knows this attempt: the run is over, or the server considers this worker
    # lost.
    info = activity.info()
    assert info.workflow_id is not None
    handle = activity.client().get_workflow_handle(info.workflow_id, run_id=info.workflow_run_id)
    try:
        description = await handle.describe()
    except RPCError:
        return True
    is_cancelled = description.raw_description.workflow_extended_info.cancel_requested
    return description.status == WorkflowExecutionStatus.RUNNING and not is_cancelled


def last_heartbeat() -> tuple[Any, ...]:
    """Return the details of the previous attempt's last heartbeat, without the count of starts and
    the progress.
    """
    details = tuple(activity.info().heartbeat_details)
    if details and is_count_of_starts(details[0]):
        details = details[1:]
    return details[:-1] if details and progress_of(details[-1]) else details


def is_count_of_starts(detail: Any) -> bool:
    """Return whether a heartbeat detail is the count of starts, which later attempts put first."""
    return isinstance(detail, dict) and detail.get("event") == "tool_starts"


@dataclass(frozen=True)
class Starts:
    """The count of a call's starts, the first heartbeat detail from the second attempt on.

    Attempts do not count as starts: one may have been refused, or may have waited.
    """

    starts: int = 0
    lost: int = 0
    """Number of workers lost with the call; a worker that was shut down does not count."""
    since: float = 0.0
    """When the loss was found."""
    attempt: int = 0
    """The last attempt that started the call."""

    @property
    def detail(self) -> JsonObject:
        """The count as a heartbeat detail."""
        return {"event": "tool_starts", **asdict(self)}

    def with_loss(self, attempt: int) -> Starts:
        """Return the count after the worker of that attempt was lost: with the call, only if the
        attempt started it.
        """
        is_counted = attempt == self.attempt
        return replace(self, lost=self.lost + 1, since=time.time()) if is_counted else self

    def are_used_up(self, most: int) -> bool:
        """Return whether the call may not start again, where `most` workers may be lost with it."""
        return (self.starts if most == 1 else self.lost) >= most


def known_starts(offer: Offer | None) -> Starts:
    """Return this activity's known starts, without a request to the server."""
    info = activity.info()
    details = info.heartbeat_details
    if details and is_count_of_starts(details[0]):
        return Starts(**{each.name: details[0].get(each.name, 0) for each in fields(Starts)})
    first = 0 if offer else min(info.attempt - 1, 1)
    return Starts(first, attempt=first)


async def record_starts(starts: Starts) -> JsonObject:
    """Record the starts on the server before the next one, so that the call does not start too
    often.

    Returns the detail that later heartbeats begin with. Raises RPCError.
    """
    handle = activity.client().get_async_activity_handle(task_token=activity.info().task_token)
    await handle.heartbeat(starts.detail, *last_heartbeat())
    return starts.detail


SUSPECT_WAIT, LONGEST_SUSPECT_WAIT = 1.0, 60.0
"""Seconds before a suspect is offered again: a fifth of the time passed."""
SUSPECT_SECONDS = 30.0
"""Seconds that a suspect waits for other suspects: most workers are lost for other reasons, and
with many calls."""


class PoisonCalls:
    """The calls on one worker that were lost with another worker, any of which may have ended that
    worker.
    """

    def __init__(self) -> None:
        self._is_busy = False

    @asynccontextmanager
    async def alone(self, call: Starts) -> AsyncIterator[None]:
        """Run the block while no other suspect runs, if the call is a suspect and has not waited
        long.

        Raises the ApplicationError with which Temporal offers the call again later, here or
        elsewhere, and RPCError.
        """
        if not call.lost or time.time() - call.since > SUSPECT_SECONDS:
            yield
            return
        if self._is_busy:
            await record_starts(call)
            raise _later()
        info = activity.info()
        _log.warning(
            "%s of run %s was lost with its worker: it runs again, without any other such call at "
            "the same time",
            *(info.activity_type, info.workflow_id),
        )
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False


def _later() -> ApplicationError:
    info = activity.info()
    waited = (info.current_attempt_scheduled_time - info.scheduled_time).total_seconds()
    return ApplicationError(
        "It was lost with a worker, and waits until another such call has ended here",
        type=SUSPECT_WAITS,
        next_retry_delay=timedelta(
            seconds=min(max(SUSPECT_WAIT, GROWTH * waited), LONGEST_SUSPECT_WAIT)
        ),
        category=_BENIGN,
    )
