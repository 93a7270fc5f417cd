"""Decides when a run continues in a new link: when its history has grown enough, or its workers have a new version."""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

from temporalio import workflow
from temporalio.common import RawValue, SearchAttributePair
from temporalio.workflow import ContinueAsNewVersioningBehavior

from ..agents import Agent
from ..protocol.descriptions import shown_name
from ..protocol.search_attributes import AGENT, HANDED_BY, STARTED, keyword

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


def is_behind() -> bool:
    """Return whether a workflow that is pinned to a version of its workers' deployment is to go on in another one.

    That is the deployment's current version; known from the first task after the change of it.
    """
    return workflow.info().is_target_worker_deployment_version_changed()


def go_on_in_new_link(input: Any, handed_by: Agent | None = None) -> NoReturn:
    """Close this link, and begin the next one: in the current version of the workers, where those have versions.

    Lists of runs go on to show when the first link began; and the new agent, after a handoff by the one before.
    """
    info, attributes = workflow.info(), None
    memo: dict[str, Any] = {name: RawValue(payload) for name, payload in info.raw_memo.items()}
    memo.setdefault(STARTED, info.workflow_start_time.isoformat())
    if handed_by is not None:
        name = shown_name(input.agent)
        memo |= {"agent": name, HANDED_BY: shown_name(handed_by)}
        if AGENT.name in input.search_attributes:
            attributes = info.typed_search_attributes.updated(SearchAttributePair(AGENT, keyword(name)))
    is_pinned = info.get_current_deployment_version() is not None
    behavior = ContinueAsNewVersioningBehavior.AUTO_UPGRADE if is_pinned else None
    workflow.continue_as_new(input, memo=memo, search_attributes=attributes, initial_versioning_behavior=behavior)


class Extent(NamedTuple):
    """How long a history is."""

    events: int
    bytes: int


class HistorySize:
    """How much the history has grown since this was made, which is when the link has loaded its conversation."""

    def __init__(self) -> None:
        self._info = workflow.info()
        self._start = _now()

    def suggests_continuing(self, carried_bytes: int) -> bool:
        """Return whether Temporal suggests continue-as-new, and `has_grown_enough` agrees."""
        return self._info.is_continue_as_new_suggested() and has_grown_enough(self._start, _now(), carried_bytes)


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
