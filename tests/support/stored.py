"""Values that are stored for workflows, in any storage."""

from __future__ import annotations

import random
import uuid
from collections.abc import Awaitable, Callable

import pytest
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError

from perdure.payloads.storage import values_of
from perdure.protocol.names import SESSION_WORKFLOW, WORKFLOW

ODD = ("plain", "a/b c", "tilde~ü%2F*", "..", "x" * 20 + "[?]")

LARGE = random.Random(1).randbytes(400_000).hex()


async def require_damage_found(
    converter: DataConverter, write: Callable[[bytes | None], Awaitable[str]]
) -> None:
    """Store a large value once, below the prefix `perdure/tests`, and read it: whole, damaged, lost.

    `write` gives the only object other content, or removes it, and returns its key.
    """
    first = await converter.encode([LARGE])
    assert first == await converter.encode([LARGE])
    assert await converter.decode(first, [str]) == [LARGE]
    assert (await write(b"something else")).startswith("perdure/tests/v0/")
    with pytest.raises(ApplicationError, match="integrity check failed"):
        await converter.decode(first, [str])
    await write(None)
    with pytest.raises(ApplicationError, match="the object is gone") as raised:
        await converter.decode(first, [str])
    assert (raised.value.type, raised.value.non_retryable) == ("storage", True)


async def require_own_values_removed(converter: DataConverter, client: Client) -> None:
    """Store values for workflows with odd ids, find those of each, and remove them."""
    settings = client.config(active_config=True)
    settings["data_converter"] = converter
    storing, values = Client(**settings), values_of(converter.external_storage)
    assert values is not None
    ids = [f"{odd}-{uuid.uuid4()}" if odd != ".." else ".." for odd in ODD]
    for number, id in enumerate(ids):
        large = random.Random(number).randbytes(400_000).hex()
        handle = await storing.start_workflow(
            (WORKFLOW, SESSION_WORKFLOW)[number % 2], large, id=id, task_queue="none"
        )
        await handle.signal("anything", large[::-1])
        await handle.terminate()
    everything = [each async for each in values.values("default")]
    assert len(everything) == 2 * len(ids)
    for id in ids:
        own = [each async for each in values.values("default", id)]
        assert len(own) == 2
        assert {each.owner for each in own} == {values.owner(id)}
        assert set(own) <= set(everything)
        assert [await values.remove(each) for each in own + own] == [True] * 4
    assert [each async for each in values.values("default")] == []
