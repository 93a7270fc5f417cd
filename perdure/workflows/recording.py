"""Records a conversation in parts, each small enough for one payload, and loads it from there."""

from __future__ import annotations

from itertools import pairwise

from pydantic import BaseModel
from temporalio import workflow

from ..conversation import Conversation, ConversationRef, Operation, operation_bytes
from ..errors import PayloadTooLargeError
from ..messages import Message
from ..payloads.failures import MAX_PAYLOAD_BYTES
from ..protocol import activities
from ..protocol.run import CarriedConversation, RunInput
from .policies import HEARTBEAT_TIMEOUT, LOST_WORKER_RETRIES, MARGIN

PIECE_BYTES = 512 * 1024
"""One payload carries this much of a conversation, unless a single message is larger."""
CERTAIN_BYTES = 1536 * 1024
"""A value of this size fits into Temporal's 2 MB even if it does not compress at all."""


async def record_ahead(conversation: Conversation) -> None:
    """Record enough of the conversation that the rest fits into the input of the next activity.

    Temporal records an activity's input when it is scheduled, so each part is the input of an
    activity that does nothing else. Raises `PayloadTooLargeError` for a message that no input can
    hold.
    """
    for operation in conversation.unrecorded_operations:
        await _require_recordable(operation)
    for reference in list(conversation.partial_refs(PIECE_BYTES)):
        await _record(reference)


async def record_all(conversation: Conversation) -> None:
    """Record the unrecorded rest of the conversation. Raises `PayloadTooLargeError` like
    `record_ahead`.
    """
    await record_ahead(conversation)
    if conversation.unrecorded_operations:
        await _record(conversation.ref())


async def _record(reference: ConversationRef) -> None:
    await workflow.execute_activity(
        activities.RECORD,
        activities.ConversationInput(conversation=reference),
        start_to_close_timeout=MARGIN,
        heartbeat_timeout=HEARTBEAT_TIMEOUT,
        retry_policy=LOST_WORKER_RETRIES,
        summary="conversation, ahead of the next call",
    )


async def _require_recordable(operation: Operation) -> None:
    if operation_bytes(operation) <= CERTAIN_BYTES:
        return
    size = await encoded_bytes(operation)
    if size > MAX_PAYLOAD_BYTES:
        raise PayloadTooLargeError(
            f"A message of the conversation is too large to be recorded: {size} bytes after "
            f"compression, at most {MAX_PAYLOAD_BYTES} are possible. Send less, or configure "
            "external storage (PERDURE_STORAGE) for clients and workers"
        )


async def load_beginning(input: RunInput, conversation: Conversation) -> None:
    """Load the part of the initial conversation that the link's input lacks; usually nothing.

    Then add the messages of a session's turn.
    """
    if input.conversation_elsewhere is not None:
        conversation.load(await load_messages(input.conversation_elsewhere))
    if input.added_messages:
        conversation.append(input.added_messages)


async def load_messages(carried: CarriedConversation) -> list[Message]:
    """Return the conversation recorded in another link's history.

    The pieces are loaded one after the other, because Temporal returns at most 2 MB of results to
    one workflow task. The first one also updates the activities' copy of the conversation.
    """
    messages: list[Message] = []
    reference = carried.reference
    for start, end in pairwise([0, *carried.ends]):
        messages += await workflow.execute_activity(
            activities.LOAD_PIECE,
            activities.PieceInput(
                workflow_id=carried.workflow_id,
                of_session=carried.of_session,
                run_id=carried.run_id,
                reference=reference,
                start=start,
                end=end,
            ),
            result_type=list[Message],
            start_to_close_timeout=4 * MARGIN,
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=LOST_WORKER_RETRIES,
            summary=f"conversation, messages {start + 1} to {end}",
        )
        reference = reference.model_copy(update={"base": reference.version, "operations": []})
    return messages


def uncompressed_bytes(value: object) -> int:
    """Return the size of the value's payload before compression or external storage."""
    return workflow.payload_converter().to_payload(value).ByteSize()


async def encoded_bytes(value: BaseModel) -> int:
    """Return the size of the value's payload as sent. Recorded, because a replay might compress
    differently.
    """
    size: int = await workflow.execute_local_activity(
        activities.MEASURE,
        value,
        result_type=int,
        start_to_close_timeout=MARGIN,
        retry_policy=LOST_WORKER_RETRIES,
    )
    return size
