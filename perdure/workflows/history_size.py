"""When it is time to go on in a new history."""

from __future__ import annotations

from temporalio import workflow

KIB, MIB = 1024, 1024 * 1024
MAX_EVENTS = 13_000
"""A worker that has lost the run replays so many in about four seconds, within a workflow task."""
MAX_HISTORY_BYTES = 36 * MIB
"""Temporal ends a run at 50 MB; one iteration more has to fit in."""
USUAL_SUGGESTION_EVENTS = 4096
"""Where Temporal suggests it, unless a server is configured otherwise."""
SMALL_EVENT_BYTES = KIB
AMORTIZED = 4
"""A history of small events goes on until it has grown by this many times what the next one would begin with."""


class HistorySize:
    """How much the history has grown since the link's conversation was loaded."""

    def __init__(self) -> None:
        self._events, self._bytes = _now()

    def suggests_continuing(self, carried_bytes: int) -> bool:
        """Whether Temporal suggests it, and what would be carried over is little beside what is new.

        `carried_bytes` is what the next history would begin with, uncompressed. Without the second condition, the
        history of a run whose conversation is never trimmed would soon grow with the square again.
        """
        if not workflow.info().is_continue_as_new_suggested():
            return False
        events, size = _now()
        if events - self._events >= MAX_EVENTS or size >= MAX_HISTORY_BYTES:
            return True
        grown = size - self._bytes
        if size < events * SMALL_EVENT_BYTES and events >= USUAL_SUGGESTION_EVENTS:
            return grown >= AMORTIZED * carried_bytes
        # Few large events bring Temporal's byte limits near: they must not wait long.
        return grown >= self._bytes


def _now() -> tuple[int, int]:
    info = workflow.info()
    return info.get_current_history_length(), info.get_current_history_size()
