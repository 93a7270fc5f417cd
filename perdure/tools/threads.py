"""Runs a plain function beside the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import Any, NamedTuple


class Outcome(NamedTuple):
    """What a call gave: a value, or what it raised."""

    value: Any = None
    raised: BaseException | None = None

    def get(self) -> Any:
        """The value. Raises what the call raised; what is no Exception, as a RuntimeError."""
        if self.raised is None:
            return self.value
        if isinstance(self.raised, Exception):
            raise self.raised
        raise RuntimeError(f"{type(self.raised).__name__} {self.raised}".strip()) from self.raised


async def call_in_thread(function: Callable[[], Any], name: str) -> Outcome:
    """Calls `function` in a daemon thread of its own and of that name, with the caller's context variables.

    A thread of its own, because a tool that hangs would otherwise occupy a place in a pool for good and keep the
    process from ending. When the caller is cancelled or runs out of time, the function goes on unheard.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Outcome] = loop.create_future()

    def deliver(outcome: Outcome) -> None:
        if not done.done():
            done.set_result(outcome)

    def work() -> None:
        outcome = _call(function)
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits any more
            loop.call_soon_threadsafe(deliver, outcome)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), name=name, daemon=True).start()
    return await done


def _call(function: Callable[[], Any]) -> Outcome:
    try:
        return Outcome(value=function())
    except BaseException as raised:
        # Also SystemExit and KeyboardInterrupt: in this thread only the function itself can have raised them.
        return Outcome(raised=raised)
