"""Decides when a run continues in a new link: after enough history, or with a new version of its
workers.
"""

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
"""A worker replays this many events in about four seconds, within one workflow task."""
MAX_HISTORY_BYTES = 36 * MIB
"""Temporal terminates a run at 50 MB; one more iteration must fit."""
USUAL_SUGGESTION_EVENTS = 4096
"""Temporal's default number of events for suggesting continue-as-new."""
SMALL_EVENT_BYTES = KIB
"""Events below this average reach the limit of events before the limit of bytes."""
AMORTIZED = 4
"""A history of small events grows to this multiple of the next history's initial size."""


def is_behind() -> bool:
    """Return whether a workflow pinned to one version of its workers' deployment should move to
    another one.

    The other one is the deployment's current version. A workflow learns of a change in its next
    task.
    """
    return workflow.info().is_target_worker_deployment_version_changed()


def go_on_in_new_link(input: Any, handed_by: Agent | None = None) -> NoReturn:
    """Close this link, and begin the next one, on the workers' current version where they are
    versioned.

    Lists of runs keep showing the start of the first link, and show the new agent after a handoff.
    """
    info, attributes = workflow.info(), None
    memo: dict[str, Any] = {name: RawValue(payload) for name, payload in info.raw_memo.items()}
    memo.setdefault(STARTED, info.workflow_start_time.isoformat())
    if handed_by is not None:
        name = shown_name(input.agent)
        memo |= {"agent": name, HANDED_BY: shown_name(handed_by)}
        if AGENT.name in input.search_attributes:
            attributes = info.typed_search_attributes.updated(
                SearchAttributePair(AGENT, keyword(name))
            )
    is_pinned = info.get_current_deployment_version() is not None
    behavior = ContinueAsNewVersioningBehavior.AUTO_UPGRADE if is_pinned else None
    workflow.continue_as_new(
        input, memo=memo, search_attributes=attributes, initial_versioning_behavior=behavior
    )


class Extent(NamedTuple):
    """The length of a history, in events and bytes."""

    events: int
    bytes: int


class HistorySize:
    """The growth of the history since this object was made, after the link loaded its
    conversation.
    """

    def __init__(self) -> None:
        self._info = workflow.info()
        self._start = _now()

    def suggests_continuing(self, carried_bytes: int) -> bool:
        """Return whether Temporal suggests continue-as-new, and `has_grown_enough` agrees."""
        return self._info.is_continue_as_new_suggested() and has_grown_enough(
            self._start, _now(), carried_bytes
        )


def has_grown_enough(start: Extent, now: Extent, carried_bytes: int) -> bool:
    """Return whether a history that grew from `start` to `now` is long enough, once Temporal
    suggests a new link.

    `carried_bytes` is the uncompressed initial size of the next link's history. With links as short
    as Temporal suggests, a run that never trims its conversation would record it too often: the
    histories would grow with the square of the run's length.
    """
    if now.events - start.events >= MAX_EVENTS or now.bytes >= MAX_HISTORY_BYTES:
        return True
    grown = now.bytes - start.bytes
    if now.bytes < now.events * SMALL_EVENT_BYTES and now.events >= USUAL_SUGGESTION_EVENTS:
        return grown >= AMORTIZED * carried_bytes
    # A few large events can approach Temporal's limit of bytes.
    return grown >= start.bytes


def _now() -> Extent:
    info = workflow.info()
    return Extent(info.get_current_history_length(), info.get_current_history_size())
