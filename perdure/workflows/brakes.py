"""Keeps a run from making calls while a brake is on it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, FailureError

from ..errors import RunError
from ..loop.effects import Cancelled
from ..protocol.brakes import BRAKE_ON_RUN, PATCH, PAUSED, Brake, PausedAttempt
from .policies import LOST_WORKER_RETRIES, MARGIN
from .received import is_recorded
from .run_state import RunState

Result = TypeVar("Result")


def paused_attempt(error: FailureError) -> PausedAttempt | None:
    """Return what a brake has kept from beginning; None for another failure."""
    cause = error.cause if isinstance(error, ActivityError) else error
    if isinstance(cause, ApplicationError) and cause.type == PAUSED and cause.details:
        return PausedAttempt.model_validate(cause.details[0])
    return None


async def make_call(state: RunState, start: Callable[[], Awaitable[Result]]) -> Result:
    """Return what a call gives; it is made again each time that a brake has kept it from beginning.

    Raises `Cancelled`, and what `start` raises.
    """
    while True:
        try:
            return await start()
        except FailureError as error:
            if (paused := paused_attempt(error)) is None:
                raise
        await wait_for_release(state, paused.brake)


async def wait_for_release(state: RunState, brake: Brake | None = None) -> None:
    """Hold the run if a brake is on it now: it may have been taken off since `brake` was seen. Raises `Cancelled`."""
    if state.cancelled:
        raise Cancelled
    try:
        brake = await workflow.execute_local_activity(
            BRAKE_ON_RUN,
            state.facts,
            result_type=Brake | None,  # type: ignore[arg-type]
            start_to_close_timeout=MARGIN,
            retry_policy=LOST_WORKER_RETRIES,
        )
    except FailureError as error:
        workflow.logger.warning("whether a brake is on can't be found out: %s", error)
    if brake is not None:
        await state.hold(RunError(str(brake), kind="paused"), "paused")


async def look_at_brakes(state: RunState) -> None:
    """Wait as long as a brake is on, before a call that no activity of perdure's workers begins. Raises `Cancelled`."""
    while _may_be_braked(state):
        await wait_for_release(state)


def _may_be_braked(state: RunState) -> bool:
    state.looks_at_brakes += 1
    return is_recorded(PATCH.format(state.looks_at_brakes), state.may_be_braked)
