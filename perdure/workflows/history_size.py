"""When it is time to go on in a new history."""

from __future__ import annotations

from typing import NamedTuple

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


class Extent(NamedTuple):
    """How long a history is."""

    events: int
    bytes: int


class HistorySize:
    """How much the history has grown since the link's conversation was loaded."""

    def __init__(self) -> None:
        self._start = _now()

    def suggests_continuing(self, carried_bytes: int) -> bool:
        """Whether Temporal suggests it, and what would be carried over is little beside what is new."""
        return workflow.info().is_continue_as_new_suggested() and has_grown_enough(self._start, _now(), carried_bytes)


def has_grown_enough(start: Extent, now: Extent, carried_bytes: int) -> bool:
    """Whether a history that began with `start`, and that Temporal suggests to leave, is to be left.

    `carried_bytes` is what the next history would begin with, uncompressed. Without this condition, the history of a
    run whose conversation is never trimmed would soon grow with the square again.
    """
    if now.events - start.events >= MAX_EVENTS or now.bytes >= MAX_HISTORY_BYTES:
        return True
    grown = now.bytes - start.bytes
    if now.bytes < now.events * SMALL_EVENT_BYTES and now.events >= USUAL_SUGGESTION_EVENTS:
        return grown >= AMORTIZED * carried_bytes
    # Few large events bring Temporal's byte limits near: they must not wait long.
    return grown >= start.bytes


def _now() -> Extent:
    info = workflow.info()
    return Extent(info.get_current_history_length(), info.get_current_history_size())
