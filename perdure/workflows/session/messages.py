"""The queue of a session's messages, and the input of its next link."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import accumulate

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from ...conversation import batches
from ...loop.state import LOOP_VERSION
from ...messages import Message, TextPart
from ...protocol.run import CarriedConversation
from ...protocol.session import CarriedSession, QueuedMessage, SessionInput, SessionMessage, Taken
from ...session_conversation import SessionConversation
from ..approvers import link_content, signed_requesters
from ..continue_as_new import MAX_START_BYTES
from ..history_size import MAX_HISTORY_BYTES
from ..recording import CERTAIN_BYTES, PIECE_BYTES, uncompressed_bytes
from .turns import Turns, not_taken

INLINE_BYTES = 64 * 1024
"""A conversation up to this size travels in the next link's input; a larger one is loaded from this
link's history."""
REMEMBERED = 1_000
"""The number of messages that are recognized when they come again."""
MAX_UPDATES = 1_000
"""After this many updates, of the 2,000 that Temporal accepts, a session continues in a new
link."""
MANY_UPDATES = 1_900
"""After this many updates in one link, a session refuses messages until its turn ends."""


def next_input(
    input: SessionInput,
    turns: Turns,
    conversation: SessionConversation,
    taken: dict[str, Taken],
    queued: Sequence[QueuedMessage],
) -> SessionInput:
    """Return the input of the next link, with as many of the recent messages' ids as fit."""
    turns.instruct()
    is_small = conversation.conversation.recorded_bytes <= INLINE_BYTES
    ids = list(taken)
    chosen = input
    requested_by = None
    if turns.requesters is not None:
        requested_by = signed_requesters(
            turns.requesters, workflow.info().workflow_id, link_content()
        )
    for inline, remembered in ((is_small, ids), (False, ids), (False, ids[-100:]), (False, [])):
        before = input.carried
        carried = CarriedSession(
            turn=turns.last,
            unchecked=conversation.unchecked,
            conversation=_carried_conversation(conversation, inline=inline),
            taken={id: taken[id] for id in remembered},
            queued=list(queued),
            handed_to=turns.handed_to,
            first_run_id=before.first_run_id if before else workflow.info().run_id,
            links=before.links + 1 if before else 2,
            **dict(turns.used),
        )
        kept = before.model_extra if before else None
        changed = {
            "carried": carried.model_copy(update=kept or {}),
            "setup": turns.setup,
            "requested_by": requested_by,
        }
        chosen = input.model_copy(update={**changed, "loop_version": LOOP_VERSION})
        if uncompressed_bytes(chosen) <= CERTAIN_BYTES:
            break
    return chosen


def _carried_conversation(
    conversation: SessionConversation, *, inline: bool
) -> CarriedConversation:
    known = conversation.conversation
    pieces = [] if inline else batches(known.messages, PIECE_BYTES)
    reference = known.ref(record=False)
    return CarriedConversation(
        run_id=workflow.info().run_id,
        reference=reference.model_copy(update={"base": reference.version, "operations": []}),
        ends=list(accumulate(map(len, pieces))),
        messages=known.messages if inline else [],
        of_session=True,
    )


MAX_QUEUED_BYTES = 512 * 1024
"""Limit of the waiting messages, which travel in the next link's input."""

MAX_STEERED_BYTES = 8 * 1024 * 1024
"""Limit of the texts sent to one turn: its history has them twice, and Temporal ends it at 50
MB."""

MAX_ID_CHARS = 200
"""Limit of a message's id, and of a session's: its runs, and those that they call, have longer
ones."""
MAX_TRACE_CHARS = 100
"""Limit of a `traceparent` (W3C Trace Context)."""

MARGIN_BYTES = 128 * 1024
"""Room for the other fields of a turn's input."""


class MessageQueue:
    """Takes the messages one by one, in the order of their arrival."""

    def __init__(
        self, input: SessionInput, turns: Turns, conversation: SessionConversation
    ) -> None:
        carried = input.carried
        self.is_open = False
        """Whether the conversation is loaded; messages wait until then."""
        self.is_closing = False
        self.is_cancelled = False
        self.updates = 0
        """The number of updates that this link has accepted."""
        self.queued: list[QueuedMessage] = list(carried.queued) if carried else []
        self.taken = dict(carried.taken) if carried else {}
        """The outcomes of the last messages, by id."""
        self.setup_digest = input.setup.digest
        self._turns = turns
        self._conversation = conversation
        self._one_by_one = asyncio.Lock()

    @property
    def rests(self) -> bool:
        """Return whether no turn is active, about to begin, or owed to unread messages."""
        return self._turns.rests and not self._conversation.unread

    def require_takeable(self, message: SessionMessage) -> None:
        """Raise a refusal for a message that can't be accepted, before it is recorded."""
        if self.taken.get(message.id) and self.updates < MANY_UPDATES:
            return
        _require_short(message)
        self._require_open()
        self._require_setup(message)
        if self._turns.is_busy and message.while_busy == "reject":
            raise self._busy()
        self._require_room(message)

    def _require_open(self) -> None:
        if self.is_closing:
            raise not_taken("closing", "the session is closing: it takes no more messages")

    def _require_setup(self, message: SessionMessage) -> None:
        if message.setup is None and message.setup_digest not in ("", self.setup_digest):
            raise not_taken("setup", "the session's agent is another one: send its setup along")

    def _busy(self) -> Exception:
        return not_taken(
            "busy",
            f"the run {self._turns.id_of(self._turns.last)!r} is open: wait for its end",
        )

    def _require_room(self, message: SessionMessage) -> None:
        run = self._turns.id_of(self._turns.last)
        if (
            self.updates >= MANY_UPDATES
            or workflow.info().get_current_history_size() >= MAX_HISTORY_BYTES
        ):
            raise not_taken(
                "busy",
                f"the session was sent too much while the run {run!r} is open: wait for its end",
            )
        turn, size = self._turns.current, uncompressed_bytes(_queued(message))
        if turn and _steers(message) and turn.steered_bytes + size > MAX_STEERED_BYTES:
            raise not_taken(
                "busy", f"the run {run!r} was sent {turn.steered_bytes:,} bytes: wait for its end"
            )
        waiting = size + sum(map(uncompressed_bytes, self.queued))
        if waiting > MAX_QUEUED_BYTES and (
            self.queued or (self._turns.is_busy and not _steers(message))
        ):
            raise not_taken(
                "busy",
                f"{waiting:,} bytes of messages would wait, at most {MAX_QUEUED_BYTES:,} are "
                f"possible: wait for the end of the run {run!r}",
            )
        if self._conversation.conversation.recorded_bytes > MAX_START_BYTES:
            raise not_taken(
                "too_large",
                f"the conversation takes more than {MAX_START_BYTES:,} bytes: begin another "
                "session, and set RunOptions.context_budget to keep it smaller",
            )

    async def take(self, message: SessionMessage) -> Taken:
        """Accept the message, and return its outcome. Raises a refusal."""
        self.updates += 1
        async with self._one_by_one:
            await workflow.wait_condition(lambda: self.is_open)
            if known := self.taken.get(message.id):
                return known
            self._require_open()
            self._require_setup(message)  # One before it may have brought another.
            await self._advance()
            taken = await self._accept(message)
            taken = taken.model_copy(update={"text_digest": message.text_digest})
            self.taken[message.id] = taken
            while len(self.taken) > REMEMBERED:
                del self.taken[next(iter(self.taken))]
            return taken

    async def _accept(self, message: SessionMessage) -> Taken:
        is_busy = self._turns.current is not None or bool(self.queued)
        if is_busy and message.while_busy == "reject":
            raise self._busy()
        self._adopt(message)
        self._turns.note_request(message)
        while self._turns.current is not None and _steers(message):
            turn = self._turns.current
            if await self._turns.steer(message.text):
                return Taken(
                    became="steering",
                    run_id=turn.run_id,
                    first_run_id=turn.first_run_id,
                    turn=turn.number,
                )
            if not await self._turns.end_within():
                break
            await self._advance()
        if self._turns.current is not None or self.queued:
            return self._queue(message)
        turn = await self._turns.begin([_message_of(message)], message.traceparent)
        return Taken(
            became="turn", run_id=turn.run_id, first_run_id=turn.first_run_id, turn=turn.number
        )

    def _queue(self, message: SessionMessage) -> Taken:
        waiting = _queued(message)
        if (
            size := uncompressed_bytes(self._turns.setup) + uncompressed_bytes(waiting)
        ) > CERTAIN_BYTES - MARGIN_BYTES:
            raise not_taken(
                "too_large", f"a run with this message would take {size:,} bytes: send less"
            )
        size += sum(map(uncompressed_bytes, self.queued))
        # Those that have come together were each looked at as if it were the only one.
        if size > CERTAIN_BYTES - MARGIN_BYTES:
            raise not_taken(
                "busy", f"{len(self.queued)} messages wait already: wait for the end of a run"
            )
        self.queued.append(waiting)
        number = self._turns.last + len(self.queued)
        return Taken(became="queued", run_id=self._turns.id_of(number), turn=number)

    def _adopt(self, message: SessionMessage) -> None:
        """Start later turns with the sender's setup."""
        setup = message.setup
        if setup is None or (digest := setup.digest) == self.setup_digest:
            return
        if (size := uncompressed_bytes(setup)) > CERTAIN_BYTES - MAX_QUEUED_BYTES:
            raise not_taken(
                "too_large",
                f"the agent takes {size:,} bytes: no run of a session can be started with it",
            )
        self._turns.setup, self.setup_digest = setup, digest

    async def advance(self, *, waits: bool) -> None:
        """Take over the result of an ended turn, and begin the next turn; with `waits`, queued
        messages begin none.
        """
        async with self._one_by_one:
            await self._advance(waits=waits)

    async def _advance(self, *, waits: bool = False) -> None:
        turn = self._turns.current
        if turn is not None and turn.has_ended:
            await self._turns.take_result()
        if self._turns.current is not None or self.is_cancelled:
            return
        if self._conversation.unread or (self.queued and not waits):
            await self._begin_owed(self.queued.pop(0) if self.queued else None)

    async def _begin_owed(self, first: QueuedMessage | None) -> None:
        messages = [_message_of(first)] if first else []
        try:
            await self._turns.begin(messages, first.traceparent if first else "")
        except ApplicationError as error:
            # The next turn reads it, whenever that begins.
            workflow.logger.error("no turn can begin with this message: %s", error.message)
            self._conversation.begin(messages)
            self._conversation.end()


def _require_short(message: SessionMessage) -> None:
    """Raise a refusal for a long id or `traceparent`: a session carries a thousand ids along."""
    for name, value, limit in (
        ("id", message.id, MAX_ID_CHARS),
        ("traceparent", message.traceparent, MAX_TRACE_CHARS),
    ):
        if len(value) > limit:
            raise not_taken(
                "unreadable",
                f"the message's {name} has {len(value):,} characters, at most {limit} expected",
            )


def _steers(message: SessionMessage) -> bool:
    """Return whether the current run may read the message: steering is text."""
    return message.while_busy == "steer" and not message.parts


def _queued(message: SessionMessage) -> QueuedMessage:
    return QueuedMessage(
        text=message.text,
        id=message.id,
        parts=message.parts,
        role=message.role,
        traceparent=message.traceparent,
    )


def _message_of(message: SessionMessage | QueuedMessage) -> Message:
    has_text = message.text.strip() or not message.parts
    return Message(
        role=message.role,
        parts=[*([TextPart(value=message.text)] if has_text else []), *message.parts],
    )
