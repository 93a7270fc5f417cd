"""The events of a run: its log, and what a reader makes of the log (§13.1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias, TypeVar, cast

from pydantic import BaseModel

from .conversation import Conversation
from .event_data import EVENT_DATA, EventType, LoggedData
from .json_types import JsonObject
from .messages import Message
from .operations import Operation, operation_bytes

Data = TypeVar("Data")
Kind: TypeAlias = type[Data]

TERMINAL_EVENTS: frozenset[str] = frozenset({"done", "cancelled", "failed"})
"""A run emits exactly one of these, as its last event."""

CONVERSATION_EVENTS: frozenset[str] = frozenset({"messages_updated", "done"})
"""Their data has `messages`, the whole list at that moment; logs keep the conversation's version instead."""


class RunEvent(BaseModel):
    """One event, as a reader sees it."""

    seq: int
    """Counts from 1 without gaps, across all links of the run."""
    type: EventType
    iteration: int
    """The iteration that the event belongs to, from 1; 0 before the first."""
    data: JsonObject
    """What `perdure.event_data` declares for `type`; `data_as` gives it with static types."""
    time: float = 0.0
    """Seconds since the epoch, by the workflow's clock; 0 for tokens."""
    call_id: str | None = None
    """The tool call that the event is about."""

    def data_as(self, kind: Kind[Data]) -> Data:
        """The data as a type of `perdure.event_data`: `event.data_as(ToolResultData)["result"]`.

        Raises `TypeError` when events of this type have data of another kind.
        """
        expected = EVENT_DATA[self.type]
        if kind is not expected:
            raise TypeError(f"the data of a {self.type} event is {expected.__name__}, not {kind.__name__}")
        return cast(Data, self.data)


class LoggedEvent(RunEvent):
    """One event, as a log keeps it: with the conversation's version in place of its messages.

    With the messages, the log would grow with the square of the run's length.
    """

    version: int


class EventPage(BaseModel):
    """A part of a log, with the operations by which the conversation changes in the course of it."""

    events: list[LoggedEvent] = []
    operations: list[Operation] = []
    base: int = 0
    """The conversation's version that `operations` start from."""
    more: bool = False
    """Whether the log goes on after this page."""


PAGE_CHARS = 512 * 1024
"""A page holds more only when its single event does."""


class _Entry(NamedTuple):
    """An event in the log, without its `seq`, which follows from its place."""

    type: EventType
    iteration: int
    data: LoggedData
    time: float
    call_id: str | None
    version: int


class EventLog:
    """The events of one link of a run. `last_seq` is that of the link before it."""

    def __init__(self, conversation: Conversation, *, last_seq: int = 0) -> None:
        self._conversation = conversation
        self._first = last_seq + 1
        self._entries: list[_Entry] = []

    @property
    def last_seq(self) -> int:
        """The `seq` of the last event; 0 when there is none yet."""
        return self._first + len(self._entries) - 1

    def append(
        self, type: EventType, iteration: int, data: LoggedData, *, time: float, call_id: str | None = None
    ) -> None:
        """Add an event; `time` is in seconds since the epoch."""
        self._entries.append(_Entry(type, iteration, data, time, call_id, self._conversation.version))

    def page(self, after: int) -> EventPage:
        """The events whose `seq` is above `after`, as many as fit into one answer to a query."""
        start = min(max(after + 1 - self._first, 0), len(self._entries))
        base = self._entries[start - 1].version if start else self._conversation.first_version
        events: list[LoggedEvent] = []
        operations: list[Operation] = []
        chars = 0
        for place, entry in enumerate(self._entries[start:], start):
            news = self._between(base + len(operations), entry.version)
            chars += 200 + len(str(entry.data)) + sum(map(operation_bytes, news))
            if events and chars > PAGE_CHARS:
                break
            operations += news
            events.append(LoggedEvent.model_construct(seq=self._first + place, **entry._asdict()))
        more = start + len(events) < len(self._entries)
        return EventPage(events=events, operations=operations, base=base, more=more)

    def _between(self, version: int, until: int) -> Sequence[Operation]:
        return self._conversation.since(version)[: until - version]


class EventReader:
    """Turns the pages of a log into what a reader sees.

    It follows the conversation, whose messages at `version` are `seed`.
    """

    def __init__(self, seed: Sequence[Message], *, version: int = 0) -> None:
        self._conversation = Conversation(seed, version=version)

    def read(self, page: EventPage) -> Iterator[RunEvent]:
        """The page's events. Pages must come in order, without gaps."""
        operations = iter(page.operations)
        for event in page.events:
            while self._conversation.version < event.version:
                self._conversation.apply(next(operations))
            yield materialize(event, self._conversation.messages)


def materialize(event: LoggedEvent, messages: Sequence[Message]) -> RunEvent:
    """The event as a reader sees it: with the messages in its data, if its type has them."""
    data = event.data
    if event.type in CONVERSATION_EVENTS:
        data = {**data, "messages": list(messages)}
    return RunEvent.model_construct(
        seq=event.seq, type=event.type, iteration=event.iteration, data=data, time=event.time, call_id=event.call_id
    )
