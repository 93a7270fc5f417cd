"""Calls a plain function in a thread, so that the event loop goes on meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import Any, NamedTuple


async def call_in_thread(function: Callable[[], Any], name: str) -> Any:
    """What `function` returns, called in a daemon thread of that name, with the caller's context variables.

    Raises the Exception or SystemExit that the function raises, and anything else, such as its KeyboardInterrupt or
    CancelledError, as a RuntimeError: a CancelledError from here always means that the caller is cancelled.

    The thread is the function's own. In a pool, a function that hangs would occupy a place for good, and keep the
    process from ending. When the caller is cancelled or runs out of time, the function goes on, and its end is ignored.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_Ended] = loop.create_future()

    def deliver(ended: _Ended) -> None:
        if not done.done():
            done.set_result(ended)

    def work() -> None:
        ended = _call(function)
        with contextlib.suppress(RuntimeError):  # The loop was closed meanwhile: nobody waits any more.
            loop.call_soon_threadsafe(deliver, ended)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), name=name, daemon=True).start()
    return _value_of(await done)


class _Ended(NamedTuple):
    """How a call ended: with a value, or with what it raised."""

    value: Any = None
    raised: BaseException | None = None


def _call(function: Callable[[], Any]) -> _Ended:
    try:
        return _Ended(value=function())
    except BaseException as raised:
        # Also SystemExit and KeyboardInterrupt: in this thread only the function itself can have raised them.
        return _Ended(raised=raised)


def _value_of(ended: _Ended) -> Any:
    if ended.raised is None:
        return ended.value
    if isinstance(ended.raised, Exception | SystemExit):
        raise ended.raised
    raise RuntimeError(f"{type(ended.raised).__name__} {ended.raised}".strip()) from ended.raised
