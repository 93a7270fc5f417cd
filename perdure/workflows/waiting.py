"""Waits in a workflow: for a condition, or for an activity until it is done, cancelled or out of
grace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol, TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError
from temporalio.workflow import ActivityHandle

from ..loop.effects import Cancelled
from .policies import LOST_WORKER_RETRIES, MARGIN, OFFERED_RETRIES

Result = TypeVar("Result")


class Cancellable(Protocol):
    """Anything with a flag for its cancellation."""

    cancelled: bool


class CallingRun(Cancellable, Protocol):
    """A run, whose activities send heartbeats."""

    heartbeat_timeout: timedelta


def now() -> float:
    """Return the same as `workflow.time()`, without the detour through the SDK: the loop's clock is
    the workflow's.
    """
    return asyncio.get_running_loop().time()


async def wait_until(
    condition: Callable[[], bool], seconds: float | None = None, why: str | None = None
) -> bool:
    """Wait until the condition holds, for at most `seconds`, and return whether it does; `why` is
    shown in the UI.
    """
    try:
        await workflow.wait_condition(condition, timeout=seconds, timeout_summary=why)
    except TimeoutError:
        return False
    return True


async def wait_until_done(
    handle: asyncio.Task[Any], run: Cancellable, *, grace: float = 0.0, why: str = ""
) -> bool:
    """Wait until an activity is done or, after the run's cancellation, for another `grace` seconds.

    Returns whether it is done; if not, the caller cancels it.
    """
    await workflow.wait_condition(lambda: handle.done() or run.cancelled)
    return handle.done() or await wait_a_little(handle, grace, why)


async def wait_a_little(handle: asyncio.Task[Any], seconds: float, why: str) -> bool:
    """Wait until it is done, for at most that long, and return whether it is; 0 checks without
    waiting.
    """
    if seconds and not handle.done() and not await wait_until(handle.done, seconds, why):
        workflow.logger.info("not done after %g s: %s", seconds, why)
    return handle.done()


async def give_up(handle: ActivityHandle[Any]) -> None:
    """Cancel the activity, and wait until Temporal has accepted the cancellation."""
    handle.cancel()
    try:
        await handle
    except ActivityError as error:
        workflow.logger.debug("a cancelled activity ended: %s", error)


async def result_unless_cancelled(handle: ActivityHandle[Result], run: Cancellable) -> Result:
    """Return the activity's result. Raises `Cancelled`, and cancels the activity, if the run is
    cancelled first; otherwise `ActivityError`.
    """
    if not await wait_until_done(handle, run):
        await give_up(handle)
        raise Cancelled
    try:
        return await handle
    except ActivityError:
        if run.cancelled:
            raise Cancelled from None
        raise


async def activity_result(
    run: CallingRun,
    name: str,
    input: Any,
    type_: type[Result],
    seconds: float,
    summary: str,
    retries: RetryPolicy = LOST_WORKER_RETRIES,
) -> Result:
    """Return the result of an activity that limits itself to `seconds`. Raises as
    `result_unless_cancelled` does.

    An input with an `offer` is for any worker that has the missing thing, so most attempts are
    refusals.
    """
    handle: ActivityHandle[Result] = workflow.start_activity(
        name,
        input,
        result_type=type_,
        start_to_close_timeout=timedelta(seconds=seconds) + MARGIN,
        heartbeat_timeout=run.heartbeat_timeout,
        retry_policy=OFFERED_RETRIES if input.offer else retries,
        summary=summary,
    )
    return await result_unless_cancelled(handle, run)
