"""Keeps a run from making calls while it is paused."""

from __future__ import annotations

from typing import Any, NamedTuple

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, FailureError

from ..conversation import DigestMismatchError
from ..errors import RunError
from ..loop.effects import Cancelled
from ..protocol.pauses import PATCH, PAUSE_ON_RUN, PAUSED, Pause, PausedAttempt
from .policies import LOST_WORKER_RETRIES, MARGIN
from .received import is_recorded
from .run_state import RunState


class Misfit(NamedTuple):
    """The last attempt of a call could not begin, because the history did not show the run's
    conversation.
    """

    text: str
    attempt: int = 1
    told: Any = None


Unbegun = PausedAttempt | Misfit


def unbegun_attempt(error: FailureError) -> Unbegun | None:
    """Return the attempt that a worker refused to begin, because the run is paused or its history
    did not match; None for any other failure.
    """
    cause = error.cause if isinstance(error, ActivityError) else error
    if not isinstance(cause, ApplicationError):
        return None
    if cause.type == DigestMismatchError.__name__:
        return Misfit(cause.message)
    if cause.type != PAUSED or not cause.details:
        return None
    return PausedAttempt.model_validate(cause.details[0])


async def await_permission(state: RunState, attempt: Unbegun) -> None:
    """Wait until the attempt may be repeated: the pause is over, or somebody releases the run.
    Raises `Cancelled`.
    """
    if isinstance(attempt, PausedAttempt):
        await wait_for_release(state, attempt.pause)
    else:  # Each attempt has read the history again.
        await state.hold(RunError(attempt.text, kind="history"), "server")


async def wait_for_release(state: RunState, pause: Pause | None = None) -> None:
    """Hold the run if it is still paused: the pause may have ended since `pause` was seen. Raises
    `Cancelled`.
    """
    if state.cancelled:
        raise Cancelled
    try:
        pause = await workflow.execute_local_activity(
            PAUSE_ON_RUN,
            state.facts,
            result_type=Pause | None,  # type: ignore[arg-type]
            start_to_close_timeout=MARGIN,
            retry_policy=LOST_WORKER_RETRIES,
        )
    except FailureError as error:
        workflow.logger.warning("whether a pause is on can't be found out: %s", error)
    if pause is not None:
        await state.hold(RunError(str(pause), kind="paused"), "paused")


async def look_at_pauses(state: RunState) -> None:
    """Wait while the run is paused, before a call that no activity of perdure's workers begins.
    Raises `Cancelled`.
    """
    while _may_be_paused(state):
        await wait_for_release(state)


def _may_be_paused(state: RunState) -> bool:
    state.looks_at_pauses += 1
    return is_recorded(PATCH.format(state.looks_at_pauses), state.may_be_paused)
