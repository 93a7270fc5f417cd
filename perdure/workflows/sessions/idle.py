"""Notices that nothing has happened in a session for a long time."""

from __future__ import annotations

from collections.abc import Callable

from temporalio import workflow


class IdleTime:
    """One timer at a time, however many turns there are."""

    def __init__(self, seconds: float, is_busy: Callable[[], bool]) -> None:
        """`seconds` may pass without a message or a turn."""
        self._seconds = seconds
        self._is_busy = is_busy
        self._since = workflow.time()

    def touch(self) -> None:
        """Something has happened."""
        self._since = workflow.time()

    async def over(self) -> None:
        """Returns when nothing has happened for that time."""
        left = self._seconds
        while left > 0:
            await workflow.sleep(left, summary="the session closes if nobody says anything")
            if self._is_busy():
                self.touch()
            left = self._since + self._seconds - workflow.time()
