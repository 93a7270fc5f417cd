"""An event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from functools import partial

from ..logs import get_logger
from .threads import end_in_thread
from .watchdog import watchdog

_log = get_logger("perdure.tools")

CLOSE_SECONDS = 5.0
"""How long the end of the thread is awaited: whatever blocks it can't be ended."""
TASK_SECONDS = 1.0
"""How long tasks are awaited that are cancelled when the loop ends."""


class LoopThread:
    """A daemon thread that runs an event loop until it is closed, whatever the code on the loop raises.

    `purpose` is what the watchdog calls the loop when something blocks it.
    """

    def __init__(self, name: str, purpose: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._purpose = purpose
        self._is_closing = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether the loop runs: not after `close`, and not in a process that was forked."""
        return self._thread.is_alive() and not self._is_closing

    async def close(self) -> None:
        """Cancel what still runs on the loop, and end the thread; one that is blocked is left to itself."""
        self._is_closing = True
        self.loop.call_soon_threadsafe(self.loop.stop)
        await end_in_thread(partial(self._thread.join, CLOSE_SECONDS), "closing")
        if self._thread.is_alive():
            _log.warning("%s is blocked, and is left as it is", self._purpose)

    def leave(self) -> None:
        """Let the thread end as soon as nothing blocks it any more, without waiting for that."""
        self._is_closing = True
        with contextlib.suppress(RuntimeError):  # closed
            self.loop.call_soon_threadsafe(self.loop.stop)

    def _work(self) -> None:
        asyncio.set_event_loop(self.loop)
        watchdog.watch(self.loop, self._purpose)
        while not self._is_closing:
            try:
                self.loop.run_forever()
            except BaseException:
                # A callback raised SystemExit or KeyboardInterrupt: meant for a program that has only this loop.
                _log.exception("%s was to end the process; it goes on", self._purpose)
        watchdog.forget(self.loop)
        with contextlib.suppress(BaseException):
            self.loop.run_until_complete(_end_tasks())
        self.loop.close()


async def _end_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=TASK_SECONDS)
    await asyncio.get_running_loop().shutdown_asyncgens()
