"""Virtual time: an event loop that jumps to its next timer, and the clock of activities."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from typing import Any

from perdure import breakers
from perdure.activities import failures, heartbeat

EPOCH = 1_800_000_000.0
"""Seconds since the Unix epoch at which each schedule begins."""


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop without threads, sockets and waits: its time is that of the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self._now = EPOCH
        self._clock_resolution = 1e-6
        self._selector = self

    def time(self) -> float:
        return self._now

    def select(self, timeout: float | None) -> list[Any]:
        """Jump to the next timer; end `run_forever` where nothing is left to happen."""
        if timeout is None:
            self.stop()
        elif timeout > 0:
            self._now += timeout
        return []

    def _process_events(self, events: list[Any]) -> None:
        """There are none: nothing comes from outside."""

    def _write_to_self(self) -> None:
        """Nobody wakes this loop from another thread."""

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, function: Callable[..., Any], *arguments: Any
    ) -> asyncio.Future[Any]:
        """Call the function now: a schedule has one thread."""
        done = self.create_future()
        try:
            done.set_result(function(*arguments))
        except Exception as error:
            done.set_exception(error)
        return done

    def run_while(self, is_going_on: Callable[[], bool], seconds: float) -> None:
        """Run until the condition fails, nothing is left to happen, or that much time has passed.

        Raises nothing of the callbacks' own: `call_exception_handler` gets their errors.
        """
        until = self._now + seconds
        self._stopping = False
        self._thread_id = threading.get_ident()
        asyncio._set_running_loop(self)
        try:
            while not self._stopping and self._now < until and is_going_on():
                self._run_once()  # type: ignore[attr-defined]
        finally:
            self._thread_id = None  # type: ignore[assignment]
            asyncio._set_running_loop(None)

    def end(self) -> None:
        """Cancel all tasks, let them end, and close the loop."""
        for _ in range(5):
            left = [task for task in asyncio.all_tasks(self) if not task.done()]
            if not left:
                break
            for task in left:
                task.cancel()
            self.run_while(lambda left=left: not all(map(_is_done, left)), 100.0)  # type: ignore[misc]
        self.close()


def _is_done(task: asyncio.Task[Any]) -> bool:
    return task.done()


class _Time:
    """The module `time`, on the clock of the schedule that runs now."""

    def __init__(self) -> None:
        self.loop: VirtualLoop | None = None

    def time(self) -> float:
        return self.loop.time() if self.loop is not None else EPOCH

    monotonic = time


class _Datetime(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return datetime.fromtimestamp(clock.time(), tz)


clock = _Time()
"""The clock of the activities."""


def moment(seconds: float) -> datetime:
    """Return the virtual time as a `datetime` in UTC."""
    return datetime.fromtimestamp(seconds, UTC)


def use_virtual_time() -> None:
    """Give the modules of activities that read the system's clock the virtual one, for good."""
    for module in (failures, heartbeat, breakers):
        vars(module)["time"] = clock
    vars(heartbeat)["datetime"] = _Datetime
