"""Waits for what a test expects, instead of sleeping."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from perdure.client import RunHandle
from perdure.tool_calls import PendingApproval

T = TypeVar("T")


LONGEST_PAUSE = 0.1


async def wait_for(
    probe: Callable[[], Awaitable[T]], *, timeout: float = 60.0, every: float = 0.02
) -> T:
    """The first truthy value that `probe` gives; fails the test after `timeout` seconds without
    one.

    A probe often asks server and worker, so what takes long is asked for less and less often.
    """
    deadline = time.monotonic() + timeout
    while not (value := await probe()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{probe!r} gave {value!r} for {timeout} s")
        await asyncio.sleep(every)
        every = max(every, min(every * 1.2, LONGEST_PAUSE))
    return value


async def wait_until(holds: Callable[[], object], *, timeout: float = 60.0) -> None:
    """Wait until a plain condition holds; fails the test after `timeout` seconds."""

    async def probe() -> object:
        return holds()

    await wait_for(probe, timeout=timeout)


async def asked(run: RunHandle, count: int = 1) -> list[PendingApproval]:
    """The calls that wait for a decision, once there are so many."""

    async def pending() -> list[PendingApproval]:
        waiting = (await run.status()).pending_approvals
        return waiting if len(waiting) == count else []

    return await wait_for(pending)
