"""What the events of a session's history amount to: the same facts, in the same order, as its workflow has met them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from ..conversation import Conversation, ConversationRef, DigestMismatchError, messages_of
from ..errors import ConfigurationError
from ..messages import Message
from ..protocol import names
from ..protocol.names import dropped_signal, postponed_signal, skipped_signal
from ..protocol.outcome import RunFailure, RunOutput
from ..protocol.run import RunInput, SteeringMessage
from ..protocol.session import HandedOver, SessionInput, SessionMessage, SessionNote, Taken
from ..session_conversation import SessionConversation
from .events import (
    HistoryLink,
    RecordedChild,
    RecordedSignal,
    RecordedUpdate,
    RecordedWork,
    decode,
    seconds,
)
from .transcript import Transcript, loaded_pieces, unknown_messages

Ended = Literal["done", "failed", "cancelled", "terminated", "timed_out"]


@dataclass
class RecordedTurn:
    """Turn of a session, as the session's history tells it."""

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
    failure: RunFailure | None = None
    """Of one that has failed, as far as it says why."""
    said_before: int = 0
    """How many messages the transcript had when it began."""


@dataclass
class RecordedMessage:
    """Message that the session has taken."""

    message: SessionMessage
    taken: Taken | None
    """What has become of it; None while that is open, and for one that was not taken after all."""
    time: float


@dataclass
class RecordedNote:
    """Note that somebody left among the session's events."""

    note: SessionNote
    time: float


@dataclass
class SessionLink(HistoryLink):
    """Link of a session, as its history records it."""

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


Value = TypeVar("Value", HandedOver, SessionNote)

_ENDS: dict[str, Ended] = {
    "completed": "done",
    "failed": "failed",
    "canceled": "cancelled",
    "terminated": "terminated",
    "timed_out": "timed_out",
}


async def fold_session(client: Client, link: SessionLink, transcript: Transcript, until: int | None = None) -> None:
    """Complete the link, and the transcript of those before it, by what its events say, up to that version.

    Raises as `read_session_link` does.
    """
    fold = _Fold(client, link, transcript)
    for event in link.history:
        if until is not None and link.conversation.version == until:
            break
        await fold.look_at(event)
    if until is None or link.conversation.version < until:
        fold.settle()


class _Fold:
    """Goes through the events in order.

    A turn's end counts when the next turn begins, or at the end of the history: the session may be about to steer the
    turn when it ends.
    """

    def __init__(self, client: Client, link: SessionLink, transcript: Transcript) -> None:
        self._client = client
        self._link = link
        self._work = RecordedWork()
        self._session = SessionConversation(link.conversation)
        self._transcript = transcript
        transcript.begin_link(link.seed)
        link.transcript = transcript.messages
        self._turns: dict[int, RecordedTurn] = {}
        """By the event that has begun it, as the updates."""
        self._updates: dict[int, RecordedMessage] = {}
        self._patches = _patches_in(link.history)
        self._signals = 0
        self._readable_signals = 0
        self._ended = False
        self._refusal: str | None = None
        """Why the input guardrail has refused what the turn was sent; None where it has not."""
        self._under_way = 0
        self.is_open = False
        """Whether a turn has begun whose end was not taken over."""

    async def look_at(self, event: HistoryEvent) -> None:
        match self._work.add(event):
            case RecordedChild(state="begun") as child:
                await self._begin_turn(child)
            case RecordedChild() as child:
                await self._follow_turn(child)
            case RecordedSignal(id="") as signal:
                await self._take_signal(signal)
            case RecordedSignal(state="signaled", type=names.STEER) as signal:
                if text := (await decode(self._client, signal.input, SteeringMessage)).text:
                    self._session.steer(Message.user(text))
            case RecordedUpdate(type=names.SEND) as update:
                await self._follow_update(update)

    def settle(self) -> None:
        """Take over what the last turn has left, if it has ended."""
        if self.is_open and self._ended:
            version, sent = self._link.conversation.version, self._session.sent
            self._session.end()
            if self._refusal is None:
                self._follow(version, sent)
            else:
                self._follow(version)
                handed = [said for each in self._link.conversation.since(version) for said in messages_of(each)]
                self._transcript.add_refused(unknown_messages(handed, sent), self._refusal)
            self.is_open, self._ended, self._refusal = False, False, None

    def _follow(self, version: int, sent: Sequence[Message] = ()) -> None:
        self._transcript.follow(self._link.conversation.since(version), sent)
        self._link.transcript = self._transcript.messages

    async def _begin_turn(self, child: RecordedChild) -> None:
        input = await decode(self._client, child.input, RunInput)
        if input.beginning is None or input.session is None:
            return
        self.settle()
        version, reference = self._link.conversation.version, input.beginning.reference
        for operation in reference.operations[max(0, version - reference.base) :]:
            self._link.conversation.apply(operation)
        self._follow(version)
        if self._link.conversation.digest != reference.digest:
            raise DigestMismatchError(
                f"the conversation of the session at turn {input.session.turn} has the digest "
                f"{self._link.conversation.digest}, {reference.digest} was expected"
            )
        self._session.begin(input.messages)
        self.is_open, self._ended, self._under_way = True, False, input.session.turn
        self._turns[child.event_id] = RecordedTurn(
            input.session.turn,
            child.id,
            list(input.messages),
            seconds(child.scheduled) or 0.0,
            said_before=len(self._transcript.messages),
        )

    async def _follow_turn(self, child: RecordedChild) -> None:
        turn = self._turns.get(child.event_id)
        if turn is None:
            return
        if child.state == "started":
            turn.first_run_id = child.run_id
            self._link.turns.append(turn)
        elif child.started is None:
            del self._turns[child.event_id]
            self._session.begin([])
            self.is_open = False
        else:
            turn.ended, turn.until = _ENDS[child.state], seconds(child.ended)
            await self._take_end(child, turn)
            self._ended = True

    async def _take_end(self, child: RecordedChild, turn: RecordedTurn) -> None:
        end: RunOutput | RunFailure | None = None
        if child.result is not None:
            end = turn.output = await decode(self._client, child.result, RunOutput)
        elif child.failure is not None:
            end = turn.failure = await self._failure(child.failure)
            if end and end.refused:
                self._refusal = end.reason or ""
        if end and end.handed_over:
            self._session.hand_over(end.handed_over, is_last=True, unread=end.unread_steering)

    async def _failure(self, failure: Failure) -> RunFailure | None:
        while failure.HasField("cause") and not failure.HasField("application_failure_info"):
            failure = failure.cause
        payloads = failure.application_failure_info.details.payloads
        try:
            return await decode(self._client, payloads, RunFailure) if payloads else None
        except ValueError:
            return None  # somebody else's

    async def _take_signal(self, signal: RecordedSignal) -> None:
        match signal.type:
            case names.HAND_OVER:
                self._take_part(await self._signal_value(signal.input, HandedOver))
            case names.NOTE:
                note = await self._signal_value(signal.input, SessionNote)
                self._link.notes += [RecordedNote(note, seconds(signal.scheduled) or 0.0)] if note else []

    async def _signal_value(self, payloads: Sequence[Payload], type_: type[Value]) -> Value | None:
        """Decode the one value that a signal should have; None for what the session dropped, as its markers say, too.

        Signals are counted as `workflows.received.Received` counts them.
        """
        self._signals += 1
        if skipped_signal(self._signals) in self._patches:
            return None
        try:
            values = await self._client.data_converter.decode(list(payloads))
        except ConfigurationError:  # A session can't read what has no key here, either.
            values = []
        except ValueError:
            return None
        if postponed_signal(self._signals) not in self._patches:
            self._readable_signals += 1
            if dropped_signal(self._readable_signals) in self._patches:
                return None
        if len(values) != 1:
            return None
        try:
            return type_.model_validate(values[0])
        except ValueError:
            return None

    def _take_part(self, part: HandedOver | None) -> None:
        if part is not None and self.is_open and part.turn == self._under_way:
            self._session.hand_over(part.reference, is_last=part.is_last, unread=part.unread_steering)

    async def _follow_update(self, update: RecordedUpdate) -> None:
        if update.state == "begun":
            message = await decode(self._client, update.input, SessionMessage)
            recorded = RecordedMessage(message, None, seconds(update.scheduled) or 0.0)
            self._updates[update.event_id] = recorded
            self._link.messages.append(recorded)
        elif update.result is not None:
            self._updates[update.event_id].taken = await decode(self._client, update.result, Taken)


async def read_session_link(
    client: Client, session: str, run_id: str, *, until: int | None = None, transcript: Transcript | None = None
) -> SessionLink:
    """Read one link of a session; a conversation that it has not loaded yet is read from the link before it.

    With `until`, read no further than that version of the conversation; `transcript` is that of the links before it,
    which this one continues. Raises `RPCError` when there is no such link,
    `DigestMismatchError` when what it records does not fit together, and what `decode` raises.
    """
    handle = client.get_workflow_handle(session, run_id=run_id)
    history = [event async for event in handle.fetch_history_events()]
    if not history or history[0].event_type != EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
        raise ValueError(f"the history of {session!r}, run {run_id!r}, does not begin with the start of a session")
    started = history[0].workflow_execution_started_event_attributes
    input = await decode(client, started.input.payloads, SessionInput)
    seed = await _seed(client, session, input, history)
    link = SessionLink(run_id, history, input, seed, _initial_conversation(input, seed))
    await fold_session(client, link, transcript or Transcript(()), until)
    return link


async def session_conversation(client: Client, session: str, run_id: str, reference: ConversationRef) -> Conversation:
    """Read the conversation of a session at exactly that version from a link of it. Raises as above."""
    conversation = (await read_session_link(client, session, run_id, until=reference.version)).conversation
    conversation.follow(reference)
    conversation.forget_operations()
    return conversation


async def _seed(client: Client, session: str, input: SessionInput, history: Sequence[HistoryEvent]) -> list[Message]:
    if input.carried is None:
        return input.setup.messages
    carried = input.carried.conversation
    if not carried.ends:
        return carried.messages
    pieces = await loaded_pieces(client, RecordedWork(history))
    if len(pieces) >= carried.ends[-1]:
        return pieces
    before = await read_session_link(client, session, carried.run_id, until=carried.reference.version)
    return before.conversation.messages


def _initial_conversation(input: SessionInput, seed: Sequence[Message]) -> Conversation:
    if input.carried is None:
        return Conversation.recorded(seed)
    start = input.carried.conversation.reference
    return Conversation.recorded(seed, version=start.version, digest=start.digest)


def _patches_in(history: Iterable[HistoryEvent]) -> set[str]:
    """Return the ids of the patches that the markers of a history name, as Temporal's SDKs record them."""
    markers = (
        event.marker_recorded_event_attributes
        for event in history
        if event.event_type == EventType.EVENT_TYPE_MARKER_RECORDED
    )
    data = (marker.details["patch-data"] for marker in markers if marker.marker_name == "core_patch")
    return {str(json.loads(payload.data)["id"]) for each in data for payload in each.payloads}
