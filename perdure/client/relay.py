"""Relays a caller's cancellation and steering messages to the run that the caller awaits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from ..errors import RunNotFound
from .handle import RunHandle
from .tokens import CancellationToken, Steering

logger = logging.getLogger("perdure")


@asynccontextmanager
async def relayed(run: RunHandle, cancel: CancellationToken | None, steering: Steering | None) -> AsyncIterator[None]:
    """Within it, the run hears of the token's cancellation and gets the messages; what is there already goes first."""
    loop = asyncio.get_running_loop()
    rung = asyncio.Event()

    def ring() -> None:
        # The loop may be closed when somebody cancels or steers long after the call has returned.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(rung.set)

    await _relay_once(run, cancel, steering)
    relay = asyncio.create_task(_relay(run, cancel, steering, rung))
    if cancel:
        cancel.listen(ring)
    if steering:
        steering.listen(ring)
    try:
        yield
    finally:
        if cancel:
            cancel.forget(ring)
        if steering:
            steering.listen(None)
        relay.cancel()
        with suppress(asyncio.CancelledError):
            await relay


async def _relay(
    run: RunHandle, cancel: CancellationToken | None, steering: Steering | None, rung: asyncio.Event
) -> None:
    while not (cancel and cancel.is_cancelled):
        await rung.wait()
        rung.clear()
        await _relay_once(run, cancel, steering)


async def _relay_once(run: RunHandle, cancel: CancellationToken | None, steering: Steering | None) -> None:
    try:
        for text in steering.drain() if steering else []:
            await run.steer(text)
        if cancel and cancel.is_cancelled:
            await run.cancel("the caller's CancellationToken")
    except RunNotFound:
        logger.info("the run %s has ended: a message for it came too late", run.id)
