"""The events of a run: its log, and a reader's view of the log (§13.1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias, TypeVar, cast

from pydantic import BaseModel, Field

from .conversation import Append, Conversation, Operation, Rewrite, operation_bytes
from .event_data import EVENT_DATA, EventType, LoggedData, ToolProgressData
from .json_types import JsonObject
from .messages import Message, unless_empty
from .tool_calls import ToolProgress

Data = TypeVar("Data")
Kind: TypeAlias = type[Data]

TERMINAL_EVENTS: frozenset[EventType] = frozenset({"done", "cancelled", "failed"})
"""A run emits exactly one of these, as its last event."""
ASKING_EVENTS: frozenset[EventType] = frozenset({"permission_requested", "permission_vote"})
"""After one of these, a call waits for a person: after the second, for the next of several."""

CONVERSATION_EVENTS: frozenset[str] = frozenset({"messages_updated", "done"})
"""Their data has `messages`, the whole list at that moment; logs contain the conversation's version
instead."""


class RunEvent(BaseModel):
    """One event for readers."""

    seq: int
    """Counts from 1 without gaps, across all links of the run."""
    type: EventType
    iteration: int
    """The iteration that the event belongs to, from 1; 0 before the first."""
    data: JsonObject
    """The data that `perdure.event_data` declares for `type`; `data_as` returns it with static
    types."""
    time: float = 0.0
    """Seconds since the epoch, by the workflow's clock; 0 for tokens."""
    call_id: str | None = None
    """The tool call that the event is about."""
    run_id: str | None = unless_empty(None)
    """The called run that the event belongs to, if a run is read together with those that it
    called."""
    position: str = ""
    """The position of a stream after this event, also within a text: pass it as `after` to continue
    from there."""
    operations: list[Operation] = Field(default=[], exclude=True)
    """The changes of the conversation since the last event that has `messages`; the run's first one
    begins empty."""

    def data_as(self, kind: Kind[Data]) -> Data:
        """Return the data as a type of `perdure.event_data`:
        `event.data_as(ToolResultData)["result"]`.

        Raises `TypeError` if events of this type have data of another kind.
        """
        expected = EVENT_DATA[self.type]
        if kind is not expected:
            raise TypeError(
                f"the data of a {self.type} event is {expected.__name__}, not {kind.__name__}"
            )
        return cast(Data, self.data)


def progress_data(progress: ToolProgress) -> ToolProgressData:
    """Return the data of the event for that progress."""
    return ToolProgressData(
        name=progress.name,
        callId=progress.call_id,
        done=progress.done,
        total=progress.total,
        text=progress.text,
    )


def as_changes(event: RunEvent) -> JsonObject:
    """Event as JSON, with `operations` instead of `messages`: all events together are as large as
    the conversation.

    Applying them in order, from the run's first event on, gives the messages.
    """
    written: JsonObject = event.model_dump(
        mode="json", by_alias=True, exclude={"data": {"messages"}}
    )
    if event.type in CONVERSATION_EVENTS:
        written["data"]["operations"] = [
            each.model_dump(mode="json", by_alias=True) for each in event.operations
        ]
    return written


class LoggedEvent(RunEvent):
    """One event in a log: with the conversation's version instead of its messages.

    With the messages, the log would grow with the square of the run's length.
    """

    version: int


class EventPage(BaseModel):
    """A part of a log, with the operations that change the conversation during it."""

    events: list[LoggedEvent] = []
    operations: list[Operation] = []
    base: int = 0
    """The conversation's version that `operations` start from."""
    more: bool = False
    """Whether the log continues after this page."""


PAGE_CHARS = 512 * 1024
"""A page exceeds this only if its single event does."""


class LogEntry(NamedTuple):
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
        self._entries: list[LogEntry] = []

    @property
    def last_seq(self) -> int:
        """The `seq` of the last event; 0 before the first one."""
        return self._first + len(self._entries) - 1

    def append(
        self,
        type: EventType,
        iteration: int,
        data: LoggedData,
        *,
        time: float,
        call_id: str | None = None,
    ) -> None:
        """Add an event; `time` is in seconds since the epoch."""
        self._entries.append(
            LogEntry(type, iteration, data, time, call_id, self._conversation.version)
        )

    def entries(self, after: int) -> Sequence[LogEntry]:
        """Return the events whose `seq` is above `after`."""
        return self._entries[max(after + 1 - self._first, 0) :]

    def all(self) -> list[RunEvent]:
        """Return the events, without the conversation."""
        events: list[RunEvent] = []
        more = True
        while more:
            page = self.page(events[-1].seq if events else 0)
            events += page.events
            more = page.more
        return events

    def page(self, after: int) -> EventPage:
        """Return the events whose `seq` is above `after`, up to the size of one query's answer."""
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
            seq = self._first + place
            events.append(
                LoggedEvent.model_construct(seq=seq, position=str(seq), **entry._asdict())
            )
        more = start + len(events) < len(self._entries)
        return EventPage(events=events, operations=operations, base=base, more=more)

    def _between(self, version: int, until: int) -> Sequence[Operation]:
        return self._conversation.since(version)[: until - version]


class EventReader:
    """Turns the pages of a log into events for readers.

    It tracks the conversation, whose messages at `version` are `seed`.
    """

    def __init__(self, seed: Sequence[Message], *, version: int = 0) -> None:
        self._conversation = Conversation(seed, version=version)
        self._news: list[Operation] = [Append(messages=list(seed))] if seed else []

    def begin_link(self, seed: Sequence[Message], version: int) -> None:
        """Continue with the log of the run's next link, which starts from `seed`."""
        known = self._conversation.messages
        if seed[: len(known)] != known:
            self._news = [Rewrite(messages=list(seed))]
        elif len(seed) > len(known):
            self._news.append(Append(messages=list(seed[len(known) :])))
        self._conversation = Conversation(seed, version=version)

    def read(self, page: EventPage) -> Iterator[RunEvent]:
        """Yield the page's events. Pages must come in order, without gaps."""
        operations = iter(page.operations)
        for event in page.events:
            while self._conversation.version < event.version:
                operation = next(operations)
                self._conversation.apply(operation)
                self._news.append(operation)
            yield self._with_messages(event)

    def _with_messages(self, event: LoggedEvent) -> RunEvent:
        if event.type not in CONVERSATION_EVENTS:
            return _as_seen(event, event.data)
        news, self._news = self._news, []
        return _as_seen(event, {**event.data, "messages": list(self._conversation.messages)}, news)


def _as_seen(
    event: LoggedEvent, data: JsonObject, operations: Sequence[Operation] = ()
) -> RunEvent:
    """Return the event for readers: without the version."""
    return RunEvent.model_construct(
        seq=event.seq,
        type=event.type,
        iteration=event.iteration,
        data=data,
        time=event.time,
        call_id=event.call_id,
        position=str(event.seq),
        operations=list(operations),
    )
