"""One execution of a tool under way: what its code says and asks, from whatever thread, until nobody waits for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from pydantic_core import to_json

from ..tool_calls import ToolProgress
from .context import ToolContext


@contextlib.contextmanager
def under_way(context: ToolContext) -> Iterator[ToolContext]:
    """For the time of an execution: the context whose functions may be called from any thread, also afterwards.

    Raises RuntimeError where no event loop is running, for which the functions of `context` are.
    """
    execution = _UnderWay(context)
    try:
        yield execution.context
    finally:
        execution.end()


class _UnderWay:
    """Made and ended on the event loop that the functions of `context` are for."""

    def __init__(self, context: ToolContext) -> None:
        self._given = context
        self._loop = asyncio.get_running_loop()
        self._has_ended = False
        self._latest: ToolProgress | None = None
        self._is_due = False

    @property
    def context(self) -> ToolContext:
        """The context whose functions may be called from any thread."""
        return replace(
            self._given,
            heartbeat=self._heartbeat,
            report=self._report,
            is_cancelled=self._is_cancelled,
        )

    def end(self) -> None:
        """Nobody waits any more: from now on nothing is heard of it, and it is cancelled."""
        if not self._has_ended:
            self._tell_latest()
            self._has_ended = True

    def _is_cancelled(self) -> bool:
        return self._has_ended or self._given.is_cancelled()

    def _heartbeat(self, *details: object) -> None:
        _require_json(details)
        if not self._has_ended:
            self._soon(self._given.heartbeat, *details)

    def _report(self, progress: ToolProgress) -> None:
        """Only the latest counts: a loop may report in each of its turns, and the event loop has other work."""
        self._latest = progress
        if asyncio._get_running_loop() is self._loop:
            self._tell_latest()
        elif not self._is_due:
            self._is_due = True
            self._soon(self._tell_latest)

    def _tell_latest(self) -> None:
        self._is_due = False
        latest, self._latest = self._latest, None
        if latest is not None and not self._has_ended:
            self._given.report(latest)

    def _soon(self, call: Callable[..., None], *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # The loop was closed: nobody waits any more.
            self._loop.call_soon_threadsafe(call, *arguments)


def _require_json(details: tuple[object, ...]) -> None:
    """Here, where the tool learns of it: a beat that can't be sent would end the execution, to be repeated.

    Raises TypeError.
    """
    try:
        to_json([detail for detail in details if not isinstance(detail, bytes)])
    except (ValueError, RecursionError) as error:
        raise TypeError(f"heartbeat details need a JSON form: {error}") from None
