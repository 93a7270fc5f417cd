"""Records a conversation in parts, each small enough for one payload, and loads it from there."""

from __future__ import annotations

from itertools import pairwise

from pydantic import BaseModel
from temporalio import workflow

from ..conversation import Conversation
from ..errors import PayloadTooLargeError
from ..messages import Message
from ..operations import Operation, operation_bytes
from ..payloads.limits import MAX_PAYLOAD_BYTES
from ..protocol import activities
from ..protocol.run import CarriedConversation
from .policies import HEARTBEAT_TIMEOUT, LOST_WORKER_RETRIES, MARGIN

PIECE_BYTES = 512 * 1024
"""So much of a conversation travels in one payload, unless one message is larger."""
CERTAIN_BYTES = 1536 * 1024
"""What takes so much fits into Temporal's 2 MB even when it does not compress at all."""


async def record(conversation: Conversation, *, all_of_it: bool = False) -> None:
    """Let no activity input grow past what Temporal can carry: record what is too much for one in inputs of its own.

    Raises `PayloadTooLargeError` for a message that no input can hold.
    """
    for operation in conversation.unrecorded:
        await _check(operation)
    references = list(conversation.partial_refs(PIECE_BYTES))
    if all_of_it and conversation.unrecorded:
        references.append(conversation.ref())
    for reference in references:
        await workflow.execute_activity(
            activities.RECORD,
            activities.ConversationInput(conversation=reference),
            start_to_close_timeout=MARGIN,
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=LOST_WORKER_RETRIES,
            summary="conversation, ahead of the next call",
        )


async def _check(operation: Operation) -> None:
    if operation_bytes(operation) <= CERTAIN_BYTES:
        return
    size = await encoded_bytes(operation)
    if size > MAX_PAYLOAD_BYTES:
        raise PayloadTooLargeError(
            f"A message of the conversation is too large to be recorded: {size} bytes after compression, at most "
            f"{MAX_PAYLOAD_BYTES} are possible. Send less, or configure external storage (PERDURE_STORAGE) for "
            "clients and workers"
        )


async def load_pieces(carried: CarriedConversation) -> list[Message]:
    """The conversation that the link before this one left behind.

    One piece after the other: Temporal holds at most 2 MB of results back while a decision is being made.
    """
    messages: list[Message] = []
    for start, end in pairwise([0, *carried.ends]):
        messages += await workflow.execute_activity(
            activities.LOAD_PIECE,
            activities.PieceInput(run_id=carried.run_id, reference=carried.reference, start=start, end=end),
            result_type=list[Message],
            start_to_close_timeout=4 * MARGIN,
            retry_policy=LOST_WORKER_RETRIES,
            summary=f"conversation, messages {start + 1} to {end}",
        )
    return messages


def uncompressed_bytes(value: object) -> int:
    """The size of the value's payload before it is compressed, or stored elsewhere."""
    return workflow.payload_converter().to_payload(value).ByteSize()


async def encoded_bytes(value: BaseModel) -> int:
    """The size of the value's payload as it would be sent. Measured once: a replay might compress otherwise."""
    size: int = await workflow.execute_local_activity(
        activities.MEASURE,
        value,
        result_type=int,
        start_to_close_timeout=MARGIN,
        retry_policy=LOST_WORKER_RETRIES,
    )
    return size
