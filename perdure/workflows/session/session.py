"""The Temporal workflow of a session: a conversation that goes on from run to run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar, Literal

from temporalio import workflow
from temporalio.exceptions import ActivityError

from ...conversation import Conversation
from ...loop.state import LOOP_VERSION
from ...messages import Message
from ...payloads.unpacking import CHECKED_BYTES
from ...protocol import names
from ...protocol.run import CarriedConversation
from ...protocol.session import SessionInput, SessionNote, SessionStatus, Taken
from ...session_conversation import SessionConversation
from ...text import one_line
from ..approvers import signature_fault
from ..history_size import HistorySize, go_on_in_new_link, is_behind
from ..offers import require_version
from ..pauses import Misfit, unbegun_attempt
from ..policies import BUGS
from ..received import Received
from ..recording import load_messages
from ..waiting import wait_until
from .messages import MAX_UPDATES, MessageQueue, next_input
from .turns import Turns, not_taken, read_message


class IdleTime:
    """Measures the time without a message or a turn, with one timer at a time."""

    def __init__(self, seconds: float, is_busy: Callable[[], bool]) -> None:
        """`seconds` may pass without a message or a turn."""
        self._seconds = seconds
        self._is_busy = is_busy
        self._since = workflow.time()

    def touch(self) -> None:
        """Begin to measure anew."""
        self._since = workflow.time()

    async def over(self) -> None:
        """Return when that time is over."""
        left = self._seconds
        while left > 0:
            await workflow.sleep(left, summary="the session closes without a new message")
            if self._is_busy():
                self.touch()
            left = self._since + self._seconds - workflow.time()


MISFIT_SECONDS = 5
"""Seconds until a session reads again a history whose parts do not fit together."""
Stands = Literal["running", "waiting", "ended"]
_REASONS: dict[Stands, str] = {"running": "", "waiting": "message", "ended": "closed"}
IDLE_BYTES = 64 * 1024
"""Bytes that the shortest session takes in a worker's cache."""


@workflow.defn(name=names.SESSION_WORKFLOW, sandboxed=False, failure_exception_types=BUGS)
class Session:
    """One link of one session.

    In Temporal's terms:

    - input: a `SessionInput`. Result: a `SessionStatus`.
    - child workflows: the turns, one at a time, which are runs like any other.
    - updates: `send`, a message, which becomes a turn, steers the current one, or waits for its
      own; `close`.
    - signals: `hand_over`, of a turn that its result has no place for; `note`.
    - query: the session's status.
    - continue-as-new: between turns, also to another version of the workers.

    No activity in an ordinary turn: all that the session needs comes with messages and the ends of
    turns.
    """

    loop_version: ClassVar[int] = LOOP_VERSION

    @workflow.init
    def __init__(self, input: SessionInput) -> None:
        carried = input.carried
        self._input = input
        self._received = Received(CHECKED_BYTES)
        self._conversation = SessionConversation(_conversation(input))
        self._conversation.unchecked = carried.unchecked if carried else 0
        self._turns = Turns(self._conversation, input, self._received)
        self._queue = MessageQueue(input, self._turns, self._conversation)
        self._idle = IdleTime(input.idle_timeout or 0.0, lambda: self._turns.current is not None)
        self._history: HistorySize | None = None
        self._has_ended = False
        self.memory_bytes = IDLE_BYTES
        """Approximate size of this object. A worker with too many sessions evicts by it."""

    @workflow.run
    async def run(self, input: SessionInput) -> SessionStatus:
        """Take messages until the session is closed, or to the end of this link.

        The work is done in a task of its own, so that a cancellation is a fact, and reaches the
        turn under way.
        """
        require_version(input.loop_version, self.loop_version)
        work = asyncio.create_task(self._work())
        while True:
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                if work.done():
                    raise
                self._queue.is_cancelled = self._queue.is_closing = True

    async def _work(self) -> SessionStatus:
        await self._load()
        timer = asyncio.create_task(self._close_when_idle()) if self._input.idle_timeout else None
        while not self._is_over():
            await self._queue.advance(waits=self._should_continue())
            self._idle.touch()
            self._measure()
            if self._queue.is_cancelled:
                await self._turns.cancel()
            if self._should_continue() and self._queue.rests:
                await self._continue_as_new()
            await workflow.wait_condition(self._has_news)
        if timer is not None:
            timer.cancel()
        await workflow.wait_condition(workflow.all_handlers_finished)
        return self._end()

    async def _close_when_idle(self) -> None:
        await self._idle.over()
        self._queue.is_closing = True

    async def _load(self) -> None:
        carried = self._input.carried
        if carried is not None and carried.conversation.ends:
            self._conversation.conversation.load(await self._messages_of(carried.conversation))
        self._history = HistorySize()
        self._queue.is_open = True

    async def _messages_of(self, carried: CarriedConversation) -> list[Message]:
        """Return the messages; while the history's parts do not fit together, try again."""
        while not self._queue.is_cancelled:
            try:
                return await load_messages(carried)
            except ActivityError as error:
                if not isinstance(unbegun_attempt(error), Misfit):
                    raise
                workflow.logger.warning(
                    "the session's conversation can't be loaded: %s", error.cause
                )
            await wait_until(
                lambda: self._queue.is_cancelled,
                MISFIT_SECONDS,
                "its history does not fit together",
            )
        return []

    def _is_over(self) -> bool:
        if self._queue.is_cancelled:  # No turn reads what is still unread.
            return self._turns.rests
        return self._queue.is_closing and self._queue.rests and not self._queue.queued

    def _has_news(self) -> bool:
        turn = self._turns.current
        if turn is not None:
            return turn.has_ended or (self._queue.is_cancelled and not turn.is_asked_to_end)
        return self._is_over() or (
            self._queue.rests and bool(self._queue.queued or self._should_continue())
        )

    def _should_continue(self) -> bool:
        if self._history is None or self._queue.is_closing:
            return False
        if self._queue.updates >= MAX_UPDATES or (self._queue.updates and is_behind()):
            return True
        return self._history.suggests_continuing(self._conversation.conversation.recorded_bytes)

    async def _continue_as_new(self) -> None:
        """Continue in a new link; return only if a message has arrived meanwhile."""
        await workflow.wait_condition(workflow.all_handlers_finished)
        if self._queue.rests and self._should_continue():
            desk = self._queue
            go_on_in_new_link(
                next_input(self._input, self._turns, self._conversation, desk.taken, desk.queued)
            )

    def _end(self) -> SessionStatus:
        self._has_ended = True
        if self._queue.is_cancelled:
            raise asyncio.CancelledError
        return self.status()

    def _measure(self) -> None:
        history = workflow.info().get_current_history_size()
        known = self._conversation.conversation.recorded_bytes
        self.memory_bytes = IDLE_BYTES + 2 * known + history

    @property
    def has_ended(self) -> bool:
        """Return whether the session is over, not only this link of it."""
        return self._has_ended

    @property
    def conversation(self) -> list[Message]:
        """The conversation with which the next turn would begin."""
        return self._conversation.conversation.messages

    # Handlers accept any arguments: what a stranger sends wrongly must neither end the session nor
    # block it.
    @workflow.update(
        name=names.SEND,
        description="Send a message: it begins a turn, or reaches the current one.",
    )
    async def send(self, *arguments: Any) -> Taken:
        message = read_message(arguments, self._received)
        taken = await self._queue.take(message)
        self._idle.touch()
        return taken

    @send.validator
    def _require_message(self, *arguments: Any) -> None:
        message = read_message(arguments, self._received)
        self._queue.require_takeable(message)
        if message.requested_by is not None and (
            fault := signature_fault(message, message.requested_by)
        ):
            raise not_taken("vouch", fault)

    @workflow.update(
        name=names.CLOSE, description="Accept no more messages, and end after the accepted ones."
    )
    async def close(self, *arguments: Any) -> SessionStatus:
        self._queue.updates += 1
        self._queue.is_closing = True
        return self.status()

    @workflow.signal(name=names.HAND_OVER, description="From a turn: its part of the conversation.")
    def hand_over(self, *arguments: Any) -> None:
        self._turns.receive_part(arguments)

    @workflow.signal(name=names.NOTE, description="Note an event, for readers of the session.")
    def note(self, *arguments: Any) -> None:
        self._received.read_signal(arguments, SessionNote)

    @workflow.query(name=names.STATUS, description="The status of the session.")
    def status(self) -> SessionStatus:
        turn, desk = self._turns.current, self._queue
        rests = desk.rests and not desk.queued
        status: Stands = "ended" if self._has_ended else "waiting" if rests else "running"
        return SessionStatus(
            status=status,
            reason=_REASONS[status],
            is_closing=desk.is_closing and not self._has_ended,
            turn=self._turns.last,
            run_id=turn.run_id if turn else None,
            first_run_id=turn.first_run_id if turn else None,
            queued=len(desk.queued),
            queue=[one_line(each.text, 200) for each in desk.queued],
            setup_digest=desk.setup_digest,
            **dict(self._turns.used),
        )


def _conversation(input: SessionInput) -> Conversation:
    if input.carried is None:
        return Conversation.recorded(input.setup.messages)
    before = input.carried.conversation
    return Conversation.recorded(
        before.messages, version=before.reference.version, digest=before.reference.digest
    )
