"""The state of a session from the events of its history: the same facts, in the same order, as its
workflow saw them.
"""

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

from ..conversation import Conversation, ConversationRef, DigestMismatchError
from ..errors import ConfigurationError
from ..messages import Message
from ..protocol import names
from ..protocol.names import dropped_signal
from ..protocol.outcome import RunFailure, RunOutput
from ..protocol.run import RunInput, SteeringMessage
from ..protocol.session import HandedOver, SessionInput, SessionNote
from ..session_conversation import SessionConversation
from .events import (
    HistoryLink,
    RecordedChild,
    RecordedSignal,
    RecordedWork,
    decode,
    seconds,
)
from .transcript import loaded_pieces

Ended = Literal["done", "failed", "cancelled", "terminated", "timed_out"]


@dataclass
class RecordedTurn:
    """Turn of a session, from the session's history."""

    number: int
    run_id: str
    """The id of its run."""
    first_run_id: str = ""
    """Temporal's id of the run's first link; "" before its start."""
    ended: Ended | None = None


@dataclass
class RecordedNote:
    """Note left among the session's events."""

    note: SessionNote
    time: float


@dataclass
class SessionLink(HistoryLink):
    """Link of a session, from its history."""

    input: SessionInput
    conversation: Conversation
    """The conversation of the next turn, without messages not yet handed over."""
    turns: list[RecordedTurn] = field(default_factory=list)
    notes: list[RecordedNote] = field(default_factory=list)


Value = TypeVar("Value", HandedOver, SessionNote)

_ENDS: dict[str, Ended] = {
    "completed": "done",
    "failed": "failed",
    "canceled": "cancelled",
    "terminated": "terminated",
    "timed_out": "timed_out",
}


class _Fold:
    """Completes a link from its events, in order.

    A turn's end counts at the beginning of the next turn, or at the end of the history: the session
    may be steering the turn at its end.
    """

    def __init__(self, client: Client, link: SessionLink) -> None:
        self._client = client
        self._link = link
        self._work = RecordedWork()
        self._session = SessionConversation(link.conversation)
        self._turns: dict[int, RecordedTurn] = {}
        """By the id of the beginning event."""
        self._patches = _patches_in(link.history)
        self._signals = 0
        self._ended = False
        self._under_way = 0
        self.is_open = False
        """Whether a turn has begun whose result is not taken over yet."""

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

    def settle(self) -> None:
        """Take over the last turn's result, if it has ended."""
        if self.is_open and self._ended:
            self._session.end()
            self.is_open, self._ended = False, False

    async def _begin_turn(self, child: RecordedChild) -> None:
        input = await decode(self._client, child.input, RunInput)
        if input.beginning is None or input.session is None:
            return
        self.settle()
        version, reference = self._link.conversation.version, input.beginning.reference
        for operation in reference.operations[max(0, version - reference.base) :]:
            self._link.conversation.apply(operation)
        if self._link.conversation.digest != reference.digest:
            raise DigestMismatchError(
                f"the conversation of the session at turn {input.session.turn} has the digest "
                f"{self._link.conversation.digest}, {reference.digest} was expected"
            )
        self._session.begin(input.messages)
        self.is_open, self._ended, self._under_way = True, False, input.session.turn
        self._turns[child.event_id] = RecordedTurn(input.session.turn, child.id)

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
            turn.ended = _ENDS[child.state]
            await self._take_end(child)
            self._ended = True

    async def _take_end(self, child: RecordedChild) -> None:
        end: RunOutput | RunFailure | None = None
        if child.result is not None:
            end = await decode(self._client, child.result, RunOutput)
        elif child.failure is not None:
            end = await self._failure(child.failure)
        if end and end.handed_over:
            self._session.hand_over(end.handed_over, is_last=True, unread=end.unread_steering)

    async def _failure(self, failure: Failure) -> RunFailure | None:
        while failure.HasField("cause") and not failure.HasField("application_failure_info"):
            failure = failure.cause
        payloads = failure.application_failure_info.details.payloads
        try:
            return await decode(self._client, payloads, RunFailure) if payloads else None
        except ValueError:
            return None  # a foreign one

    async def _take_signal(self, signal: RecordedSignal) -> None:
        match signal.type:
            case names.HAND_OVER:
                self._take_part(await self._signal_value(signal.input, HandedOver))
            case names.NOTE:
                note = await self._signal_value(signal.input, SessionNote)
                self._link.notes += (
                    [RecordedNote(note, seconds(signal.scheduled) or 0.0)] if note else []
                )

    async def _signal_value(self, payloads: Sequence[Payload], type_: type[Value]) -> Value | None:
        """Decode a signal's one value; None for a signal that the session dropped, which its
        markers show.

        Signals are counted as in `workflows.received.Received`.
        """
        self._signals += 1
        if dropped_signal(self._signals) in self._patches:
            return None
        try:
            values = await self._client.data_converter.decode(list(payloads))
        except ConfigurationError:  # A session can't read it either without a key.
            values = []
        except ValueError:
            return None
        if len(values) != 1:
            return None
        try:
            return type_.model_validate(values[0])
        except ValueError:
            return None

    def _take_part(self, part: HandedOver | None) -> None:
        if part is not None and self.is_open and part.turn == self._under_way:
            self._session.hand_over(
                part.reference, is_last=part.is_last, unread=part.unread_steering
            )


async def read_session_link(
    client: Client, session: str, run_id: str, *, until: int | None = None
) -> SessionLink:
    """Read one link of a session; a conversation that it has not loaded yet is read from the link
    before it.

    With `until`, stop at that version of the conversation. Raises `RPCError` for an unknown link,
    `DigestMismatchError` if its recorded parts do not fit together, and the errors of `decode`.
    """
    handle = client.get_workflow_handle(session, run_id=run_id)
    history = [event async for event in handle.fetch_history_events()]
    if not history or history[0].event_type != EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
        raise ValueError(
            f"the history of {session!r}, run {run_id!r}, does not begin with the start of a "
            "session"
        )
    started = history[0].workflow_execution_started_event_attributes
    input = await decode(client, started.input.payloads, SessionInput)
    seed = await _seed(client, session, input, history)
    link = SessionLink(run_id, history, input, _initial_conversation(input, seed))
    fold = _Fold(client, link)
    for event in history:
        if until is not None and link.conversation.version == until:
            break
        await fold.look_at(event)
    if until is None or link.conversation.version < until:
        fold.settle()
    return link


async def session_conversation(
    client: Client, session: str, run_id: str, reference: ConversationRef
) -> Conversation:
    """Read the conversation of a session at exactly that version from a link of it. Raises as
    above.
    """
    conversation = (
        await read_session_link(client, session, run_id, until=reference.version)
    ).conversation
    conversation.follow(reference)
    conversation.forget_operations()
    return conversation


async def _seed(
    client: Client, session: str, input: SessionInput, history: Sequence[HistoryEvent]
) -> list[Message]:
    if input.carried is None:
        return input.setup.messages
    carried = input.carried.conversation
    if not carried.ends:
        return carried.messages
    pieces = await loaded_pieces(client, RecordedWork(history))
    if len(pieces) >= carried.ends[-1]:
        return pieces
    before = await read_session_link(
        client, session, carried.run_id, until=carried.reference.version
    )
    return before.conversation.messages


def _initial_conversation(input: SessionInput, seed: Sequence[Message]) -> Conversation:
    if input.carried is None:
        return Conversation.recorded(seed)
    start = input.carried.conversation.reference
    return Conversation.recorded(seed, version=start.version, digest=start.digest)


def _patches_in(history: Iterable[HistoryEvent]) -> set[str]:
    """Return the patch ids in the markers of a history, as Temporal's SDKs record them."""
    markers = (
        event.marker_recorded_event_attributes
        for event in history
        if event.event_type == EventType.EVENT_TYPE_MARKER_RECORDED
    )
    data = (
        marker.details["patch-data"] for marker in markers if marker.marker_name == "core_patch"
    )
    return {str(json.loads(payload.data)["id"]) for each in data for payload in each.payloads}
