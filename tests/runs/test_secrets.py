"""No secret is ever recorded."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import zstandard
from temporalio.api.common.v1 import Payload
from temporalio.client import Client

from perdure.client import RunHandle, get_run
from perdure.errors import RunError
from perdure.payloads.converter import ENCODING
from perdure.testing import ScriptedModel, ScriptedReply, asks, call, says
from perdure.testing.script import Script

from ..support.agents import scripted_agent
from ..support.stage import Stage

Scripted = Callable[[Script], ScriptedModel]
SECRET = "sk-sentinel-8d1f0c"


def echo(text: str = "") -> str:
    return text


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


async def test_a_key_is_used_and_not_recorded(
    stage: Stage, scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_TEST_KEY", SECRET)
    again = f"your key is {SECRET}"  # Whoever owns the server has it, and may send it back.
    model = scripted(
        [asks(call("echo", text=again + "x" * 40_000)), [ScriptedReply(status=500), says(again)]]
    )
    async with stage.worker({"echo": echo}):
        run = await stage.start(scripted_agent(model, ["echo"], api_key="${env:PERDURE_TEST_KEY}"))
        assert (await run.result()).output == "your key is ${env:PERDURE_TEST_KEY}"
    assert all(SECRET in json.dumps(request.headers) for request in model.requests)
    recorded = await everything_recorded(stage.client, run.id)
    assert any(b"PERDURE_TEST_KEY" in part for part in recorded)
    assert not any(SECRET.encode() in part for part in recorded)
    events = await get_run(stage.client, run.id).events()
    assert SECRET not in repr(events)
