"""Instructions from a function, at the beginning of a run or a turn, and after a handoff."""

from __future__ import annotations

from temporalio.exceptions import ActivityError, ApplicationError

from ..conversation import count_of_instructions
from ..guardrails import with_instructions_by
from ..protocol import activities
from .offers import Offers
from .policies import COMPACTION_RETRIES, describe_failure
from .run_state import RunState
from .waiting import activity_result

INSTRUCTIONS_FAILED = "instructions"
"""The kind of a run's error after its instructions function failed."""


async def instruct(state: RunState) -> None:
    """Add the instructions of a run, a turn or the next agent to the conversation.

    A function's instructions are recorded. Raises ApplicationError after its last attempt has
    failed.
    """
    input, options, known = state.input, state.options, state.conversation.messages
    before = known[: count_of_instructions(known)]
    own = input.handoffs[input.handed_to] if input.carried is not None else before
    if (name := options.instructions_by) is not None:
        own = with_instructions_by(
            name, await _text(state, name), own, replaced=options.instructions_replaced
        )
    if own != before and not state.cancelled:
        state.instruct(own)


async def _text(state: RunState, name: str) -> str:
    try:
        return await Offers(state).run(lambda offer: _ask(state, offer))
    except ActivityError as error:
        why = f"The instructions {name!r} failed: {describe_failure(error)[1]}"
        raise ApplicationError(why, type=INSTRUCTIONS_FAILED, non_retryable=True) from error


async def _ask(state: RunState, offer: activities.Offer | None) -> str:
    return await activity_result(
        state,
        *(activities.INSTRUCT, activities.InstructInput(offer=offer), str),
        activities.JUDGE_SECONDS,
        f"instructions by {state.options.instructions_by}",
        COMPACTION_RETRIES,
    )
