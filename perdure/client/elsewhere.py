"""Runs a worker away from the caller's event loop, which the caller's own code may block."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from threading import Lock

from temporalio.worker import Worker

from ..tools.loop_thread import LoopThread
from ..tools.user_loop import end_on


@asynccontextmanager
async def running_elsewhere(
    worker: Worker, within: AbstractAsyncContextManager[None] | None = None
) -> AsyncIterator[None]:
    """Run the worker on an event loop in another thread for as long as the block runs, inside `within` on that loop.

    Raises what ends the worker, and cancels the block when that happens before its end.
    """
    loop, stop = _threads.loop(), asyncio.Event()

    async def serve() -> None:
        async with within or nullcontext(), worker:
            await stop.wait()

    block = asyncio.current_task()
    assert block is not None
    serving = asyncio.create_task(end_on(loop, serve, "worker"))
    serving.add_done_callback(block.cancel)
    try:
        yield
    except asyncio.CancelledError:
        if serving.done():
            block.uncancel()
            (await serving).result()
        raise
    finally:
        serving.remove_done_callback(block.cancel)
        loop.call_soon_threadsafe(stop.set)
        (await serving).result()


class _Threads:
    """The thread for the workers of all calls: there from the first one on, as are its connections to providers."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._thread: LoopThread | None = None

    def loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._thread is None or not self._thread.is_alive:
                self._thread = LoopThread("perdure-workers", "the worker's event loop")
            return self._thread.loop


_threads = _Threads()
