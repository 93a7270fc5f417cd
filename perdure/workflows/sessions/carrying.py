"""What a session carries into its next link."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from temporalio import workflow

from ...message_sizes import batches
from ...protocol.run import CarriedConversation
from ...protocol.session import CarriedSession, QueuedMessage, SessionInput, Taken
from ...session_conversation import SessionConversation
from ..recording import CERTAIN_BYTES, PIECE_BYTES, uncompressed_bytes
from .turns import Turns

INLINE_BYTES = 64 * 1024
"""A conversation up to this size travels in the next link's input; a larger one is loaded from this link's history."""
MAX_UPDATES = 1_000
"""Temporal takes 2,000 updates of one link; after so many, a session goes on in a new one."""
MANY_UPDATES = 1_900
"""A turn under way can't be waited for any longer, when its session has taken so many."""


def next_input(
    input: SessionInput,
    turns: Turns,
    conversation: SessionConversation,
    taken: dict[str, Taken],
    queued: Sequence[QueuedMessage],
) -> SessionInput:
    """The input of the next link, with as much of what was taken of late as fits."""
    turns.instruct()
    is_small = conversation.conversation.recorded_bytes <= INLINE_BYTES
    ids = list(taken)
    chosen = input
    for inline, remembered in ((is_small, ids), (False, ids), (False, ids[-100:]), (False, [])):
        before = input.carried
        carried = CarriedSession(
            turn=turns.last,
            conversation=_carried(conversation, inline=inline),
            taken={id: taken[id] for id in remembered},
            queued=list(queued),
            first_run_id=before.first_run_id if before else workflow.info().run_id,
            links=before.links + 1 if before else 2,
        )
        kept = before.model_extra if before else None
        chosen = input.model_copy(update={"carried": carried.model_copy(update=kept or {}), "setup": turns.setup})
        if uncompressed_bytes(chosen) <= CERTAIN_BYTES:
            break
    return chosen


def _carried(conversation: SessionConversation, *, inline: bool) -> CarriedConversation:
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
