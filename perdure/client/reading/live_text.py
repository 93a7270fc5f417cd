"""Reads what a model is saying while its call is under way, from the heartbeats of the activity."""

from __future__ import annotations

from typing import NamedTuple

from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo

from ...history.chain import Chain
from ...protocol import activities
from ...protocol.activities import StreamedText


class Speech(NamedTuple):
    """What one attempt of a model call has said so far."""

    call: str
    """Names the attempt within its link: the activity's id, and which of the activity's attempts has said it."""
    said: StreamedText


async def listen(chain: Chain, run_id: str) -> Speech | None:
    """What the model call under way in this link has said; None when there is none, or none that has spoken.

    Raises `RPCError` when the server can't be asked.
    """
    pending = (await chain.handle(run_id).describe()).raw_description.pending_activities
    speaking = next(filter(_is_speaking, pending), None)
    if speaking is None:
        return None
    (said,) = await chain.client.data_converter.decode(list(speaking.heartbeat_details.payloads), [StreamedText])
    return Speech(f"{speaking.activity_id}-{said.attempt}", said)


def _is_speaking(pending: PendingActivityInfo) -> bool:
    """Whether it is a model call that has said something and is not between two attempts."""
    return (
        pending.activity_type.name == activities.CALL_MODEL
        and bool(pending.heartbeat_details.payloads)
        and pending.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
    )
