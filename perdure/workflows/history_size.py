"""When it is time to go on in a new history."""

from __future__ import annotations

from temporalio import workflow

MIB = 1024 * 1024
LARGE_START_BYTES = MIB
MIN_EVENTS = 1000
MAX_HISTORY_BYTES = 36 * MIB
"""Temporal ends a run at 50 MB; one iteration more has to fit in."""


class HistorySize:
    """How much the history has grown since the link's conversation was loaded."""

    def __init__(self) -> None:
        self._events, self._bytes = _now()

    def suggests_continuing(self) -> bool:
        """Whether Temporal suggests it, and not merely because the link began with a large conversation.

        Such a link goes on until it has doubled, so that what is carried over and over costs no more than what is new.
        """
        if not workflow.info().is_continue_as_new_suggested():
            return False
        events, size = _now()
        is_large = self._bytes >= LARGE_START_BYTES
        enough_events = max(self._events, MIN_EVENTS if is_large else 0)
        return size >= min(2 * self._bytes, MAX_HISTORY_BYTES) or events - self._events >= enough_events


def _now() -> tuple[int, int]:
    info = workflow.info()
    return info.get_current_history_length(), info.get_current_history_size()
