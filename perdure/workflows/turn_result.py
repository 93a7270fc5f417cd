"""Hands a turn's additions to the conversation over to its session, at the end of the turn."""

from __future__ import annotations

import logging

from temporalio import workflow
from temporalio.exceptions import FailureError

from ..conversation import Conversation, ConversationRef, operation_bytes
from ..messages import Message
from ..protocol import names
from ..protocol.run import TurnOf
from ..protocol.session import HandedOver
from ..protocol.signatures import Requesters
from ..session_conversation import handed_over, let_through
from .approvers import part_content, passed_on
from .logging import log
from .recording import PIECE_BYTES
from .run_state import RunState

MAX_RESULT_BYTES = 256 * 1024
"""Limit of the conversation in a turn's result; a larger part goes to the session by signals."""


class TurnResult:
    """Hands over by the run's result, or by signals where the additions do not fit into the
    result.
    """

    def __init__(self, state: RunState, turn: TurnOf) -> None:
        self._state = state
        self._input = state.input
        self._turn = turn
        self._conversation = state.conversation
        self.refused = range(0)
        """The messages that the input guardrail refused: the session continues without them."""
        self.in_result: ConversationRef | None = None
        """The additions for the result; None where signals have carried them."""
        self._late = 0
        """The number of steering messages received since the loop ended."""
        self.has_the_end = False
        """Whether `in_result` contains every change of the conversation, one by one."""

    @property
    def unread(self) -> int:
        """Return how many of the last messages no model call has carried."""
        return (
            len(self._conversation.messages) - self.refused.stop
            if self.refused
            else self._state.unread
        )

    @property
    def unchecked(self) -> int:
        """Return how many of the last messages the input guardrail has neither accepted nor
        refused.
        """
        return self.unread if self.refused else self._state.loop.unchecked + self._late

    def requesters(self, part: ConversationRef | None) -> Requesters | None:
        """Return the requesters of this part, signed for the session; None if any of them is
        unknown.
        """
        if part is None or self._state.requests is None:
            return None
        content = part_content(self._turn.turn, part, self._input.handed_to)
        return passed_on(self._state.requests, self._turn.session, content)

    async def hand_over(self, *, by_result: bool) -> None:
        """Hand the run's additions over to the session, after the run's last step. Never raises.

        `by_result` is true if a result or the details of a failure will follow.
        """
        self._add_opening_messages()
        if self._state.loop.refused:
            self.refused = range(*self._state.loop.refused)
        self._read_late(self._conversation)
        added = self._addition()
        if added is None:
            return
        if by_result and sum(map(operation_bytes, added.operations)) <= MAX_RESULT_BYTES:
            self.in_result = added.ref()
            self.has_the_end = self._is_first and self.in_result.digest == self._conversation.digest
            return
        await self._signal(added)
        while self._read_late(self._conversation, added):
            await self._signal(added)

    @property
    def _is_first(self) -> bool:
        return self._input.carried is None

    def _add_opening_messages(self) -> None:
        """Add the turn's opening messages, if it failed before adding them."""
        if self._conversation.version == self._input.version and self._input.added_messages:
            self._conversation.append(self._input.added_messages)

    def _read_late(self, *conversations: Conversation) -> bool:
        """Add the steering messages received since the loop ended; the session's next turn reads
        them.
        """
        late = [Message.user(text) for text in self._state.drain_steering()]
        for conversation in conversations:
            conversation.append(late)
        self._late += len(late)
        return bool(late)

    def _addition(self) -> Conversation | None:
        """Return the additions; None if this link could not load the conversation."""
        beginning, conversation = self._input.beginning, self._conversation
        if beginning is None or not (self._is_first or conversation.messages):
            return None
        since = conversation.since(beginning.reference.version) if self._is_first else None
        if self.refused:
            return let_through(beginning.reference, since, conversation, self.refused)
        return handed_over(beginning.reference, since, conversation)

    async def _signal(self, added: Conversation) -> None:
        for part in [*added.partial_refs(PIECE_BYTES), None]:
            is_last = part is None
            reference = part or added.ref()
            await self._send(
                HandedOver(
                    turn=self._turn.turn,
                    reference=reference,
                    requested_by=self.requesters(reference),
                    is_last=is_last,
                    unread_steering=self.unread if is_last else 0,
                    unchecked=self.unchecked if is_last else 0,
                    handed_to=self._input.handed_to,
                )
            )

    async def _send(self, part: HandedOver) -> None:
        try:
            await workflow.get_external_workflow_handle(self._turn.session).signal(
                names.HAND_OVER, part
            )
        except FailureError as error:
            log(
                logging.WARNING,
                "could not hand its conversation to its session %r: %s",
                self._turn.session,
                error.message,
            )
