"""Says what is too large for Temporal, whose own answer would be a bare RPC error."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from temporalio.api.common.v1 import Payload
from temporalio.client import Client

from ..errors import PayloadTooLargeError
from ..protocol.activities import MAX_PAYLOAD_BYTES


async def check_size(client: Client, value: object, what: str, advice: Callable[[], str]) -> None:
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
