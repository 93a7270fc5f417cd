"""Calls a plain function in a thread, so that the event loop goes on meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import Any, NamedTuple


class Ended(NamedTuple):
    """How a call of the user's code ended: with a value, or with what it raised."""

    value: Any = None
    raised: BaseException | None = None

    def result(self) -> Any:
        """The value.

        Raises the Exception that the code raised, and anything else, such as its KeyboardInterrupt or CancelledError,
        as a RuntimeError: whoever catches a CancelledError is cancelled itself.
        """
        if self.raised is None:
            return self.value
        if isinstance(self.raised, Exception) and not isinstance(self.raised, StopIteration):
            raise self.raised
        raise RuntimeError(f"{type(self.raised).__name__} {self.raised}".strip()) from self.raised


async def end_in_thread(call: Callable[[], Any], name: str) -> Ended:
    """How `call` ends, in a daemon thread of that name, with the caller's context variables.

    The thread is the call's own. In a pool, a function that hangs would occupy a place for good, and keep the process
    from ending. When the caller is cancelled or runs out of time, the function goes on, and its end is ignored.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Ended] = loop.create_future()

    def deliver(ended: Ended) -> None:
        if not done.done():
            done.set_result(ended)

    def work() -> None:
        ended = _call(call)
        with contextlib.suppress(RuntimeError):  # The loop was closed meanwhile: nobody waits any more.
            loop.call_soon_threadsafe(deliver, ended)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), name=name, daemon=True).start()
    return await done


def _call(call: Callable[[], Any]) -> Ended:
    try:
        return Ended(value=call())
    except BaseException as raised:
        # Also SystemExit and KeyboardInterrupt: in this thread only the function itself can have raised them.
        return Ended(raised=raised)
