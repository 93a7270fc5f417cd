"""Carries a run over into a new history: what survives continue-as-new, and when it is time."""

from __future__ import annotations

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from ..activities.wire import PAYLOAD_TOO_LARGE
from ..conversation import PIECE_CHARS, Conversation, split
from ..loop.state import LoopState
from ..run import Carried, CarriedConversation, Preparation, RunInput
from .inbox import Inbox

LARGE_BYTES = 4 * 1024 * 1024
MIN_EVENTS = 1000
MAX_CARRIED_CHARS = 24 * 1024 * 1024
"""Half of what Temporal allows a history to hold."""


class HistorySize:
    """How much the history has grown since the link's conversation was loaded."""

    def __init__(self) -> None:
        self._events, self._bytes = self._now()

    def suggests_continuing(self) -> bool:
        """Whether Temporal suggests it, and not merely because the link began with a large conversation."""
        if not workflow.info().is_continue_as_new_suggested():
            return False
        events, size = self._now()
        grown = events - self._events >= MIN_EVENTS or size >= 2 * self._bytes
        return self._bytes < LARGE_BYTES or grown

    def _now(self) -> tuple[int, int]:
        info = workflow.info()
        return info.get_current_history_length(), info.get_current_history_size()


def next_link(
    input: RunInput,
    *,
    conversation: Conversation,
    state: LoopState,
    preparation: Preparation,
    inbox: Inbox,
    last_seq: int,
) -> RunInput:
    """The input of the next link, small enough for Temporal by construction."""
    info = workflow.info()
    previous = input.carried
    pieces = split(conversation.messages)
    inline = len(pieces) <= 1
    return RunInput(
        agent=input.agent,
        messages=conversation.messages if inline else [],
        inputs=input.inputs,
        options=input.options,
        carried=Carried(
            loop=state,
            preparation=preparation,
            version=conversation.version,
            digest=conversation.digest,
            last_seq=last_seq,
            steering=inbox.drain(),
            decisions=inbox.decisions,
            conversation=None if inline else _in_pieces(conversation, len(pieces)),
            first_run_id=previous.first_run_id if previous else info.run_id,
            links=previous.links + 1 if previous else 1,
        ),
    )


def _in_pieces(conversation: Conversation, pieces: int) -> CarriedConversation:
    if pieces * PIECE_CHARS > MAX_CARRIED_CHARS:
        raise ApplicationError(
            f"The conversation is too large to be carried over: about {pieces * PIECE_CHARS} characters, at most "
            f"{MAX_CARRIED_CHARS} are possible; set RunOptions.context_budget to keep it smaller",
            type=PAYLOAD_TOO_LARGE,
            non_retryable=True,
        )
    return CarriedConversation(run_id=workflow.info().run_id, reference=conversation.ref(), pieces=pieces)
