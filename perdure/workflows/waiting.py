"""Waits in a workflow: for a condition, for what was started, until that is done, cancelled or out of grace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from temporalio import workflow
from temporalio.exceptions import ActivityError
from temporalio.workflow import ActivityHandle


class Cancellable(Protocol):
    """What says of itself that it is cancelled."""

    cancelled: bool


def now() -> float:
    """Return what `workflow.time()` does, without its way through the SDK: the loop's clock is the workflow's."""
    return asyncio.get_running_loop().time()


async def wait_until(condition: Callable[[], bool], seconds: float | None = None, why: str | None = None) -> bool:
    """Wait until the condition holds, for at most `seconds`, and return whether it does; `why` is for people."""
    try:
        await workflow.wait_condition(condition, timeout=seconds, timeout_summary=why)
    except TimeoutError:
        return False
    return True


async def wait_until_done(handle: asyncio.Task[Any], run: Cancellable, *, grace: float = 0.0, why: str = "") -> bool:
    """Wait until an activity is done or, once the run is cancelled, for `grace` seconds more.

    Returns whether it is done; the caller cancels what is not.
    """
    await workflow.wait_condition(lambda: handle.done() or run.cancelled)
    return handle.done() or await wait_a_little(handle, grace, why)


async def wait_a_little(handle: asyncio.Task[Any], seconds: float, why: str) -> bool:
    """Wait until it is done, for at most that long, and return whether it is; 0 looks without waiting."""
    if seconds and not handle.done() and not await wait_until(handle.done, seconds, why):
        workflow.logger.info("not done after %g s: %s", seconds, why)
    return handle.done()


async def give_up(handle: ActivityHandle[Any]) -> None:
    """Cancel the activity, and wait until Temporal has taken that."""
    handle.cancel()
    try:
        await handle
    except ActivityError as error:
        workflow.logger.debug("a cancelled activity ended: %s", error)
