"""The turns of a session, one at a time, each a child workflow."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

from temporalio import workflow
from temporalio.exceptions import FailureError, WorkflowAlreadyStartedError
from temporalio.workflow import ChildWorkflowHandle, ParentClosePolicy

from ...conversation import ConversationRef, batches, count_of_instructions
from ...messages import Message, TextPart
from ...payloads.failures import MAX_PAYLOAD_BYTES
from ...protocol import names
from ...protocol.descriptions import details_of, memo_of, summary_of
from ...protocol.names import NOT_TAKEN
from ...protocol.outcome import RunFailure, RunOutput
from ...protocol.run import CarriedConversation, RunInput, SteeringMessage, TurnOf
from ...protocol.session import (
    HandedOver,
    SessionInput,
    SessionMessage,
    SessionSetup,
    used_before,
)
from ...protocol.signatures import MAX_REQUESTS
from ...session_conversation import SessionConversation
from ...text import valid_text
from ..approvers import handed_over_by, initial_requesters, signed_requesters
from ..child_runs import attributes_for, request_cancel
from ..policies import WORKFLOW_TASK_TIMEOUT
from ..received import Door, Received
from ..recording import CERTAIN_BYTES, PIECE_BYTES, encoded_bytes, uncompressed_bytes

MAX_TEXT_BYTES = 1024 * 1024
MAX_PARTS_BYTES = 6 * 1024 * 1024
"""Limit of a message's parts as JSON: a workflow reads values up to 8 MiB, and a setup may travel
with the message."""


MESSAGES = Door(SessionMessage, NOT_TAKEN, "text and id")
not_taken = MESSAGES.refusal


def read_message(arguments: Sequence[Any], received: Received | None = None) -> SessionMessage:
    """Return the single message of an update. Raises a refusal for any other content."""
    message = MESSAGES.read(arguments, received)
    text = valid_text(message.text)
    if not text.strip() and all(isinstance(each, TextPart) for each in message.parts):
        raise not_taken(
            "empty", "the message has no text: a turn begins with a text, an image or a file"
        )
    parts = sum(len(each.model_dump_json().encode()) for each in message.parts)
    for size, limit in ((len(text.encode()), MAX_TEXT_BYTES), (parts, MAX_PARTS_BYTES)):
        if size > limit:
            raise not_taken(
                "too_large", f"the message takes {size:,} bytes, at most {limit:,} are possible"
            )
    if not message.id:
        raise not_taken(
            "unreadable",
            "the message has no id: expected one that no other message of the session has",
        )
    return message.model_copy(update={"text": text})


INLINE_BYTES = 8 * 1024
"""A conversation up to this size travels in a turn's input; a larger one is loaded from the
session's history."""
SAME_ID_SECONDS = 60.0
"""So long the turns of a link wait for runs of an earlier session to end; then they pass over ids
that other workflows have."""
TELLING_SECONDS = 10.0
"""Seconds in which a turn ends that can't be steered any more."""


@dataclass
class Turn:
    """The current turn."""

    number: int
    run_id: str
    handle: ChildWorkflowHandle[Any, RunOutput]
    since: float
    first_run_id: str = ""
    steered_bytes: int = 0
    is_asked_to_end: bool = False

    @property
    def has_ended(self) -> bool:
        return self.handle.done()


class Turns:
    """Starts, steers and follows the turns of a session."""

    def __init__(
        self, conversation: SessionConversation, input: SessionInput, received: Received
    ) -> None:
        carried, self.setup = input.carried, input.setup
        self.last = carried.turn if carried else 0
        self.used = used_before(carried)
        self.requesters = initial_requesters(input)
        """The requesters of the session; None where any of them is unknown."""
        self.current: Turn | None = None
        self.is_starting = False
        self._patience, self._wait = SAME_ID_SECONDS, 0.5
        self._under_way = 0
        """The number of the turn that may hand over: a short one may do so before the session
        learns of its start."""
        self._conversation = conversation
        self._attributes, self._loop_version = input.search_attributes, input.loop_version
        self._received = received
        self._session = workflow.info().workflow_id
        self.handed_to = carried.handed_to if carried else ""
        """The path of the agent that spoke last; "" for the setup's own."""
        self._instructions: list[Message] | None = _instructions(self._current_setup)

    @property
    def is_busy(self) -> bool:
        return self.is_starting or (self.current is not None and not self.current.has_ended)

    @property
    def rests(self) -> bool:
        """Return whether no turn is active, or about to begin."""
        return self.current is None and not self.is_starting

    @property
    def _current_setup(self) -> SessionSetup:
        return self.setup.handed_to(self.handed_to)

    def id_of(self, number: int) -> str:
        """Return the run id of a turn."""
        return f"{self._session}/{number}"

    def instruct(self) -> None:
        """Replace the conversation's instructions after a change of the setup."""
        if (instructions := _instructions(self._current_setup)) != self._instructions:
            self._conversation.instruct(instructions)
            self._instructions = instructions

    async def begin(self, messages: Sequence[Message], traceparent: str = "") -> Turn:
        """Start the next turn, which reads these messages and the unread ones. Raises a refusal for
        a turn that would be too large to start.
        """
        self.is_starting = True
        try:
            turn = await self._begin_turn(messages, traceparent)
        finally:
            self.is_starting = False
        self.current, self.last = turn, turn.number
        self._conversation.unread = 0
        return turn

    async def _begin_turn(self, messages: Sequence[Message], traceparent: str) -> Turn:
        self.instruct()
        number, step = self.last + 1, 1
        while True:
            input = self._input(number, messages, traceparent)
            await _require_startable(input, messages)
            self._conversation.begin(messages)
            self._under_way = number
            try:
                handle = await self._start(number, input)
            except WorkflowAlreadyStartedError:
                # A run of an earlier session of the same id may take a moment to end. It is one:
                # whoever has more ids than that is a stranger, and may have thousands.
                if self._patience <= 0:
                    number, step = number + step, 2 * step
                else:
                    wait = self._wait
                    await workflow.sleep(
                        wait, summary=f"an earlier run has the id {self.id_of(number)}"
                    )
                    self._patience, self._wait = self._patience - wait, min(2 * wait, 10.0)
                continue
            return Turn(
                number, handle.id, handle, workflow.time(), handle.first_execution_run_id or ""
            )

    def note_request(self, message: SessionMessage) -> None:
        """Record the sender of a message, while all requesters so far are known."""
        self._note_requesters(message.requested_by.names if message.requested_by else None)

    def _note_requesters(self, names: Collection[str] | None) -> None:
        known = (
            None if self.requesters is None or names is None else sorted({*self.requesters, *names})
        )
        self.requesters = known if known is None or len(known) <= MAX_REQUESTS else None

    async def _start(self, number: int, input: RunInput) -> ChildWorkflowHandle[Any, RunOutput]:
        if self.requesters:
            input.requested_by = signed_requesters(
                self.requesters, self.id_of(number), input.content
            )
        asked = [*input.messages, *self._unread_messages()]
        shown = input.model_copy(update={"messages": asked})
        return await workflow.start_child_workflow(
            names.WORKFLOW,
            input,
            id=self.id_of(number),
            result_type=RunOutput,
            # A session that is terminated leaves no run behind that nobody waits for.
            parent_close_policy=ParentClosePolicy.REQUEST_CANCEL,
            task_timeout=WORKFLOW_TASK_TIMEOUT,
            memo=memo_of(shown),
            search_attributes=attributes_for(input, session=self._session),
            static_summary=summary_of(shown),
            static_details=details_of(input),
        )

    def _unread_messages(self) -> list[Message]:
        known = self._conversation.conversation.messages
        return known[len(known) - self._conversation.unread :]

    def _input(self, number: int, messages: Sequence[Message], traceparent: str) -> RunInput:
        setup, beginning = self._current_setup, self._initial_conversation()
        return RunInput(
            agent=setup.agent,
            agents=setup.agents,
            handoffs=setup.handoffs,
            handed_to=self.handed_to if self.handed_to in setup.handoffs else "",
            messages=list(messages),
            inputs=setup.inputs,
            deps=setup.deps,
            given=setup.given,
            options=setup.options.model_copy(update={"turn": number}),
            loop_version=self._loop_version,
            search_attributes=list(self._attributes),
            traceparent=traceparent,
            beginning=beginning,
            session=self._turn_of(number),
        )

    def _turn_of(self, number: int) -> TurnOf:
        known = self._conversation
        return TurnOf(
            session=self._session, turn=number, unread=known.unread, unchecked=known.unchecked
        )

    def _initial_conversation(self) -> CarriedConversation:
        conversation = self._conversation.conversation
        messages = list(conversation.messages)
        is_small = conversation.recorded_bytes <= INLINE_BYTES
        pieces = [] if is_small else batches(messages, PIECE_BYTES)
        return CarriedConversation(
            workflow_id=self._session,
            run_id=workflow.info().run_id,
            reference=self._conversation.reference(whole=not is_small),
            ends=list(accumulate(map(len, pieces))),
            messages=messages if is_small else [],
            of_session=True,
        )

    async def steer(self, text: str) -> bool:
        """Send the current turn a further message; return False if it has ended."""
        turn = self.current
        if turn is None or turn.has_ended:
            return False
        try:
            message = SteeringMessage(text=text)
            if self.requesters:
                message.requested_by = signed_requesters(
                    self.requesters, turn.run_id, message.content
                )
            await turn.handle.signal(names.STEER, message)
        except FailureError as error:
            workflow.logger.info("the run %s can't be steered any more: %s", turn.run_id, error)
            return False
        turn.steered_bytes += len(text.encode())
        self._conversation.steer(Message.user(text))
        return True

    async def end_within(self, seconds: float = TELLING_SECONDS) -> bool:
        """Wait for the end of the current turn, and return whether it came in time."""
        turn = self.current
        if turn is not None:
            try:
                await workflow.wait_condition(lambda: turn.has_ended, timeout=seconds)
            except TimeoutError:
                return False
        return True

    async def cancel(self) -> None:
        """Ask the current turn to end."""
        if self.current is not None and not self.current.is_asked_to_end:
            self.current.is_asked_to_end = True
            await request_cancel(self.current.handle)

    def receive_part(self, arguments: Sequence[Any]) -> None:
        """Take a part of the current turn's additions to the conversation."""
        self._received.pass_on_signal(
            arguments, HandedOver, partial(self._take_part, self._under_way)
        )

    def _take_part(self, under_way: int, part: HandedOver) -> None:
        fits = part.turn == under_way == self._under_way
        if not (fits and self._add(part.turn, part.reference, part)):
            workflow.logger.warning(
                "dropped the result of turn %d: it is not the current turn", part.turn
            )

    def _add(
        self, turn: int, part: ConversationRef, end: HandedOver | RunOutput | RunFailure
    ) -> bool:
        is_last = not isinstance(end, HandedOver) or end.is_last
        unread, unchecked = end.unread_steering, end.unchecked
        fits = self._conversation.hand_over(
            part, is_last=is_last, unread=unread, unchecked=unchecked
        )
        if fits and is_last and end.handed_to != self.handed_to:
            self.handed_to, self._instructions = end.handed_to, None
        if fits and self.requesters is not None:  # The run may have been steered by somebody else.
            self._note_requesters(handed_over_by(end.requested_by, turn, part, end.handed_to))
        return fits

    async def take_result(self) -> None:
        """Add the ended turn's additions to the conversation, once all of its parts are read."""
        if self._received.has_postponed:
            await workflow.wait_condition(lambda: not self._received.has_postponed)
        turn, self.current, self._under_way = self.current, None, 0
        assert turn is not None
        if ending := _ending_of(turn.handle):
            self.used = self.used.with_turn(ending)
        if ending and ending.handed_over:
            self._add(turn.number, ending.handed_over, ending)
        if not self._conversation.end():
            workflow.logger.warning(
                "the run %s has handed over nothing: its messages are kept", turn.run_id
            )


async def _require_startable(input: RunInput, messages: Sequence[Message]) -> None:
    """Raise the refusal of a turn whose input is too large.

    What is stored elsewhere fits: worth an activity for an image, which texts alone do not need.
    """
    size, limit = uncompressed_bytes(input), CERTAIN_BYTES
    if size > limit and any(part.kind != "text" for each in messages for part in each.parts):
        size, limit = await encoded_bytes(input), MAX_PAYLOAD_BYTES
    if size > limit:
        raise not_taken(
            "too_large",
            f"a run with this message takes {size:,} bytes, at most {limit:,} are possible",
        )


def _instructions(setup: SessionSetup) -> list[Message]:
    return setup.messages[: count_of_instructions(setup.messages)]


def _ending_of(handle: ChildWorkflowHandle[Any, RunOutput]) -> RunOutput | RunFailure | None:
    """Return the run's own end; None if it was cancelled, or ended from outside."""
    if handle.cancelled():
        return None
    error = handle.exception()
    if error is None:
        return handle.result()
    cause = getattr(error, "cause", None)
    details = getattr(cause, "details", ())
    if not details:
        return None
    try:
        return RunFailure.model_validate(details[0])
    except ValueError:
        return None
