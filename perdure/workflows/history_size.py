"""Decides when a link's history has grown enough for the run to continue in a new link."""

from __future__ import annotations

from typing import NamedTuple

from temporalio import workflow

KIB, MIB = 1024, 1024 * 1024
MAX_EVENTS = 13_000
"""A worker that replays a run needs about four seconds for so many, which is within a workflow task."""
MAX_HISTORY_BYTES = 36 * MIB
"""Temporal terminates a run at 50 MB; another iteration must fit in."""
USUAL_SUGGESTION_EVENTS = 4096
"""Temporal suggests continue-as-new from here on, unless a server is configured otherwise."""
SMALL_EVENT_BYTES = KIB
"""Events that are smaller on average reach the limit of events before that of bytes."""
AMORTIZED = 4
"""A history of small events grows by this many times what the next one would begin with."""


class Extent(NamedTuple):
    """How long a history is."""

    events: int
    bytes: int


class HistorySize:
    """How much the history has grown since this was made, which is when the link has loaded its conversation."""

    def __init__(self) -> None:
        self._start = _now()

    def suggests_continuing(self, carried_bytes: int) -> bool:
        """Return whether Temporal suggests continue-as-new, and `has_grown_enough` agrees."""
        return workflow.info().is_continue_as_new_suggested() and has_grown_enough(self._start, _now(), carried_bytes)


def has_grown_enough(start: Extent, now: Extent, carried_bytes: int) -> bool:
    """Return whether a link whose history has grown from `start` to `now` is long enough, once Temporal suggests a new
    one.

    `carried_bytes` is what the next link's history would begin with, uncompressed. If links were as short as Temporal
    suggests, a run whose conversation is never trimmed would record its conversation too often: the histories would
    grow with the square of the run's length.
    """
    if now.events - start.events >= MAX_EVENTS or now.bytes >= MAX_HISTORY_BYTES:
        return True
    grown = now.bytes - start.bytes
    if now.bytes < now.events * SMALL_EVENT_BYTES and now.events >= USUAL_SUGGESTION_EVENTS:
        return grown >= AMORTIZED * carried_bytes
    # A few large events come close to Temporal's limit of bytes.
    return grown >= start.bytes


def _now() -> Extent:
    info = workflow.info()
    return Extent(info.get_current_history_length(), info.get_current_history_size())
