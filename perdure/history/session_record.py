"""What the history of a session records, as one link of it: its conversation, its turns, what it was sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

from ..conversation import Conversation
from ..messages import Message
from ..protocol.outcome import RunOutput
from ..protocol.session import SessionInput, SessionMessage, SessionNote, Taken
from .history_events import CLOSING_EVENTS

Ended = Literal["done", "failed", "cancelled", "terminated", "timed_out"]


@dataclass
class RecordedTurn:
    """A turn of a session, as the session's history tells it."""

    number: int
    run_id: str
    """The id of its run."""
    messages: list[Message]
    """Those that it was opened with; what an earlier turn has not read comes before them."""
    since: float
    """When it began, in seconds since the epoch."""
    first_run_id: str = ""
    """Temporal's id of the run's first link; "" while it has not begun."""
    ended: Ended | None = None
    until: float | None = None
    output: RunOutput | None = None
    """Of a turn that is done."""
    said_before: int = 0
    """How many messages the transcript had when it began."""


@dataclass
class RecordedMessage:
    """A message that the session has taken."""

    message: SessionMessage
    taken: Taken | None
    """What has become of it; None while that is open, and for one that was not taken after all."""
    time: float


@dataclass
class RecordedNote:
    """What somebody wanted to find among the session's events."""

    note: SessionNote
    time: float


@dataclass
class SessionLink:
    """One link of a session, as its history records it."""

    run_id: str
    history: Sequence[HistoryEvent]
    input: SessionInput
    seed: list[Message]
    """The conversation that the link started with."""
    conversation: Conversation
    """As the next turn would begin with it, but for what is not handed over yet."""
    turns: list[RecordedTurn] = field(default_factory=list)
    messages: list[RecordedMessage] = field(default_factory=list)
    notes: list[RecordedNote] = field(default_factory=list)
    transcript: list[Message] = field(default_factory=list)
    """Everything that was said up to the end of this link, what trimming has dropped too.

    From the first of the links on that were read one after the other."""

    @property
    def closing(self) -> HistoryEvent | None:
        """The event that closed this link; None while it is open."""
        return next((event for event in reversed(self.history) if event.event_type in CLOSING_EVENTS), None)

    @property
    def next_run_id(self) -> str | None:
        """The link that follows, when this one was continued as new."""
        closing = self.closing
        if closing is None or closing.event_type != EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
            return None
        return closing.workflow_execution_continued_as_new_event_attributes.new_execution_run_id
