"""How large the values may be that Temporal records, and the errors for larger ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydantic import BaseModel
from temporalio.api.common.v1 import Payload
from temporalio.client import Client

from ..errors import PayloadTooLargeError

MAX_PAYLOAD_BYTES = 2 * 1024 * 1024 - 64 * 1024
"""For one payload, as it is sent: the 2 MiB that Temporal takes, less 64 KiB for what surrounds a value that is
recorded once more (https://docs.temporal.io/troubleshooting/blob-size-limit-error)."""
MAX_RESULT_BYTES = 1_500_000
"""For an activity's result, uncompressed: it is recorded once more as a part of the conversation."""


def size_of(value: BaseModel) -> int:
    """How many bytes the value takes when it is recorded, uncompressed."""
    return len(value.__pydantic_serializer__.to_json(value))


def require_recordable(value: BaseModel, what: str) -> None:
    """Check that an activity's result can be recorded: at most `MAX_RESULT_BYTES`, uncompressed.

    `what` begins the error's text. Raises `PayloadTooLargeError`.
    """
    size = size_of(value)
    if size > MAX_RESULT_BYTES:
        raise PayloadTooLargeError(
            f"{what} is too large to be recorded: {size} bytes, at most {MAX_RESULT_BYTES} are possible"
        )


async def require_sendable(client: Client, value: object, what: str, advice: Callable[[], str]) -> None:
    """Check that the client can send the value: at most `MAX_PAYLOAD_BYTES`, after compression and external storage.

    `what` begins the error's text, and `advice`, asked for only then, says how to send less. Raises
    `PayloadTooLargeError`. Stores the value when it is large and the client has a storage.
    """
    if _bytes(client.data_converter.payload_converter.to_payloads([value])) <= MAX_PAYLOAD_BYTES:
        return
    size = await bytes_as_sent(client, value)
    if size > MAX_PAYLOAD_BYTES:
        raise PayloadTooLargeError(
            f"{what} is too large for Temporal: {size} bytes after compression, at most {MAX_PAYLOAD_BYTES} are "
            f"possible. {advice()}, or configure external storage (PERDURE_STORAGE) for clients and workers"
        )


async def bytes_as_sent(client: Client, value: object) -> int:
    """How many bytes the value takes in a message to Temporal. Stores it when it is large, as `require_sendable`."""
    return _bytes(await client.data_converter.encode([value]))


def _bytes(payloads: Sequence[Payload]) -> int:
    return sum(payload.ByteSize() for payload in payloads)
