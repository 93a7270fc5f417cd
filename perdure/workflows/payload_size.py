"""Measures what is about to be recorded: too large a payload would make a decision fail for ever."""

from __future__ import annotations

from pydantic import BaseModel
from temporalio import workflow

from ..protocol import activities as wire
from .policies import LOST_WORKER_RETRIES, MARGIN

CERTAIN_BYTES = 1536 * 1024
"""What takes so much fits into Temporal's 2 MB even when it does not compress at all."""


def uncompressed_bytes(value: object) -> int:
    """The size of the value's payload before it is compressed, or stored elsewhere."""
    return workflow.payload_converter().to_payload(value).ByteSize()


async def encoded_bytes(value: BaseModel) -> int:
    """The size of the value's payload as it would be sent. Measured once: a replay might compress otherwise."""
    size: int = await workflow.execute_local_activity(
        wire.MEASURE,
        value,
        result_type=int,
        start_to_close_timeout=MARGIN,
        retry_policy=LOST_WORKER_RETRIES,
    )
    return size
