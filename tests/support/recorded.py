"""Everything that Temporal and readers have of a run, to search it for secrets."""

from __future__ import annotations

import zstandard
from temporalio.api.common.v1 import Payload
from temporalio.client import Client

from perdure.client import RunHandle
from perdure.errors import RunError
from perdure.payloads.converter import ENCODING


async def everything_recorded(client: Client, workflow_id: str) -> list[bytes]:
    """Each event of the history, as it is and decompressed, and what Temporal tells beside it."""
    handle = client.get_workflow_handle(workflow_id)
    found: list[bytes] = [(await handle.describe()).raw_description.SerializeToString()]
    async for event in handle.fetch_history_events():
        found.append(event.SerializeToString())
        found += [payload.data for payload in compressed_payloads(event)]
    return found


async def everything_said(client: Client, run: RunHandle) -> str:
    """All that is recorded of a run that has ended, and all that readers are told of it, failure or
    not.
    """
    parts = [part.decode(errors="replace") for part in await everything_recorded(client, run.id)]
    parts += [repr(await run.events()), repr(await run.messages()), repr(await run.status())]
    try:
        parts.append(repr(await run.result()))
    except RunError as error:
        parts.append(f"{error} {error.reason} {error.messages}")
    return "\n".join(parts)


def compressed_payloads(message: object) -> list[Payload]:
    """The payloads anywhere in a protobuf message, decompressed."""
    payloads: list[Payload] = []
    for _, value in message.ListFields():  # type: ignore[attr-defined]
        for child in (
            value if hasattr(value, "__iter__") and not isinstance(value, str | bytes) else [value]
        ):
            if isinstance(child, Payload) and child.metadata.get("encoding") == ENCODING:
                payloads.append(
                    Payload.FromString(zstandard.ZstdDecompressor().decompress(child.data))
                )
            elif hasattr(child, "ListFields"):
                payloads += compressed_payloads(child)
    return payloads
