"""Waits in a workflow: for a condition, or for an activity until it is done, cancelled or out of
grace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from temporalio import workflow
from temporalio.exceptions import ActivityError
from temporalio.workflow import ActivityHandle


class Cancellable(Protocol):
    """Anything with a flag for its cancellation."""

    cancelled: bool


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
