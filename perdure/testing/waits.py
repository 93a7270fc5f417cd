"""Ends the waiting of one run's tasks when the run is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from ..loop.effects import Cancelled

Value = TypeVar("Value")


class Waits:
    """What the tasks of one run wait for. An effect that never waits costs no task and no turn of the event loop."""

    def __init__(self) -> None:
        self.cancelled = False
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self._graces: dict[asyncio.Task[Any], float] = {}
        self._given_up: set[asyncio.Task[Any]] = set()

    def begin(self) -> None:
        """Make the current event loop the run's. Raises RuntimeError when none is running."""
        self._event_loop = asyncio.get_running_loop()

    def cancel(self) -> None:
        """Give up every wait, each after its grace period; from any thread, at any time."""
        self.cancelled = True
        if self._event_loop is not None and not self._event_loop.is_closed():
            # After whatever runs now: only a task that is waiting can be interrupted without a trace.
            self._event_loop.call_soon_threadsafe(self._interrupt)

    async def until(self, effect: Awaitable[Value], *, grace: float = 0.0) -> Value:
        """The effect's result. Raises `Cancelled`, and ends the effect, `grace` seconds after the run is cancelled."""
        task = asyncio.current_task(self._event_loop)
        assert task is not None
        self._graces[task] = grace
        try:
            return await effect
        except asyncio.CancelledError:
            if task not in self._given_up or task.uncancel():
                raise
            raise Cancelled from None
        finally:
            del self._graces[task]
            self._given_up.discard(task)

    def _interrupt(self) -> None:
        assert self._event_loop is not None
        for task, grace in list(self._graces.items()):
            if grace:
                self._event_loop.call_later(grace, self._give_up, task)
            else:
                self._give_up(task)

    def _give_up(self, task: asyncio.Task[Any]) -> None:
        if task in self._graces and task not in self._given_up:
            self._given_up.add(task)
            task.cancel()
