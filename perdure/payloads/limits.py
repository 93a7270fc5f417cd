"""How large a value may be that Temporal records, and what is said when one is larger."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydantic import BaseModel
from temporalio.api.common.v1 import Payload
from temporalio.client import Client

from ..errors import PayloadTooLargeError

MAX_PAYLOAD_BYTES = 2 * 1024 * 1024 - 64 * 1024
"""Temporal refuses payloads of 2 MB; the rest is for what surrounds a value that is recorded once more."""
MAX_RESULT_BYTES = 1_500_000
"""Of an activity's result, which is recorded once more as a part of the conversation."""


def size_of(value: BaseModel) -> int:
    """The bytes that the value takes when it is recorded, uncompressed."""
    return len(value.__pydantic_serializer__.to_json(value))


def require_recordable(value: BaseModel, what: str) -> None:
    """Raises `PayloadTooLargeError` when an activity's result is too large to be recorded."""
    size = size_of(value)
    if size > MAX_RESULT_BYTES:
        raise PayloadTooLargeError(
            f"{what} is too large to be recorded: {size} bytes, at most {MAX_RESULT_BYTES} are possible"
        )


async def require_sendable(client: Client, value: object, what: str, advice: Callable[[], str]) -> None:
    """Raises `PayloadTooLargeError` when the value does not fit into one payload, compressed or stored elsewhere."""
    if _bytes(client.data_converter.payload_converter.to_payloads([value])) <= MAX_PAYLOAD_BYTES:
        return
    size = _bytes(await client.data_converter.encode([value]))
    if size > MAX_PAYLOAD_BYTES:
        raise PayloadTooLargeError(
            f"{what} is too large for Temporal: {size} bytes after compression, at most {MAX_PAYLOAD_BYTES} are "
            f"possible. {advice()}, or configure external storage (PERDURE_STORAGE) for clients and workers"
        )


def _bytes(payloads: Sequence[Payload]) -> int:
    return sum(payload.ByteSize() for payload in payloads)
