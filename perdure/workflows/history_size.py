"""When it is time to go on in a new history."""

from __future__ import annotations

from temporalio import workflow

KIB, MIB = 1024, 1024 * 1024
MAX_EVENTS = 12_000
"""A worker that has lost the run replays so many in about three seconds, well within a workflow task."""
MAX_HISTORY_BYTES = 36 * MIB
"""Temporal ends a run at 50 MB; one iteration more has to fit in."""
USUAL_SUGGESTION_EVENTS = 4096
"""Where Temporal suggests it, unless a server is configured otherwise."""
SMALL_EVENT_BYTES = KIB
AMORTIZED = 10
"""A history of small events goes on until it has grown by this many times what was carried into it."""


class HistorySize:
    """How much the history has grown since the link's conversation was loaded."""

    def __init__(self) -> None:
        self._events, self._bytes = _now()

    def suggests_continuing(self) -> bool:
        """Whether Temporal suggests it, and what is carried over again is little beside what is new.

        Without the second, the history of a run whose conversation is never trimmed would grow with the square
        again, only later.
        """
        if not workflow.info().is_continue_as_new_suggested():
            return False
        events, size = _now()
        if events - self._events >= MAX_EVENTS or size >= MAX_HISTORY_BYTES:
            return True
        return size - self._bytes >= self._bytes * self._factor(events, size)

    def _factor(self, events: int, size: int) -> int:
        """Few large events bring Temporal's byte limits near: they must not wait long."""
        is_small = size < events * SMALL_EVENT_BYTES
        return AMORTIZED if is_small and events >= USUAL_SUGGESTION_EVENTS else 1


def _now() -> tuple[int, int]:
    info = workflow.info()
    return info.get_current_history_length(), info.get_current_history_size()
