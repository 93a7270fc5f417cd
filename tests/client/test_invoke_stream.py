"""`stream=True` gives the final answer's text while it is written, and nothing of the rounds with
tools (§9.3).
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from temporalio.client import Client

import perdure
from perdure.client import get_run
from perdure.errors import ExecuteError
from perdure.json_types import JsonObject
from perdure.testing import ScriptedReply, asks, call, says

from ..support.agents import Scripted, scripted_agent

TEXT = " ".join(f"word{number}" for number in range(40))
LONG = " ".join(f"word{number}" for number in range(60))


def echo(text: str = "") -> str:
    return text


async def pieces(texts: AsyncIterator[str]) -> list[tuple[float, str]]:
    return [(time.monotonic(), text) async for text in texts]


def joined(seen: list[tuple[float, str]]) -> str:
    return "".join(text for _, text in seen)


async def test_the_answer_comes_while_it_is_written(client: Client, scripted: Scripted) -> None:
    model = scripted([says(TEXT, chunk_delay=0.06)])
    seen = await pieces(
        await perdure.invoke_agent_async(scripted_agent(model), {}, client=client, stream=True)
    )
    assert joined(seen) == TEXT
    assert model.requests[-1].finished_at is not None
    assert seen[0][0] < model.requests[-1].finished_at


async def test_rounds_with_tools_are_not_shown(client: Client, scripted: Scripted) -> None:
    model = scripted([asks(call("echo"), text=LONG.upper(), chunk_delay=0.01), says(LONG)])
    events: list[str] = []
    options: JsonObject = {
        "client": client,
        "stream": True,
        "on_event": lambda type, data: events.append(type),
    }
    seen = await pieces(
        await perdure.invoke_agent_async(scripted_agent(model, ["echo"]), {}, [echo], **options)
    )
    assert joined(seen) == LONG
    assert events[-1] == "done"


async def test_early_text_is_shown_to_those_who_prefer_it(
    client: Client, scripted: Scripted
) -> None:
    async def streamed(after: int) -> list[tuple[float, str]]:
        options: JsonObject = {"client": client, "stream": True, "stream_after": after}
        return await pieces(
            await perdure.invoke_agent_async(scripted_agent(model, ["echo"]), {}, [echo], **options)
        )

    model = scripted([asks(call("echo"), text="Let me see. " * 6), says(LONG, chunk_delay=0.02)])
    seen = await streamed(100)
    assert joined(seen) == LONG
    assert model.requests[-1].finished_at is not None
    assert seen[0][0] < model.requests[-1].finished_at
    model = scripted([asks(call("echo"), text=TEXT, chunk_delay=0.02), says("Done.")])
    early = joined(await streamed(0))
    assert early.endswith("\n\nDone.")
    assert TEXT.startswith(early.removesuffix("\n\nDone."))
    with pytest.raises(ValueError, match="stream_after=-1: expected a number of characters"):
        await streamed(-1)


async def test_an_error_comes_at_the_end(client: Client, scripted: Scripted) -> None:
    model = scripted([asks(call("echo")), ScriptedReply(status=400)])
    texts = await perdure.invoke_agent_async(
        scripted_agent(model, ["echo"]), {}, [echo], client=client, stream=True
    )
    with pytest.raises(ExecuteError):
        await pieces(texts)


async def test_a_reader_that_leaves_ends_the_run(client: Client, scripted: Scripted) -> None:
    model = scripted([says(LONG, chunk_delay=0.2)])
    run_id = f"left-{time.monotonic_ns()}"
    texts = await perdure.invoke_agent_async(
        scripted_agent(model), {}, client=client, id=run_id, stream=True
    )
    assert LONG.startswith(await anext(texts))
    await texts.aclose()
    assert (await get_run(client, run_id).status()).status == "cancelled"


async def test_an_answer_that_is_checked_comes_whole(client: Client, scripted: Scripted) -> None:
    def upper(message: perdure.Message) -> perdure.GuardrailResult:
        return perdure.GuardrailResult(allowed=True, rewrite=message.text.upper())

    model = scripted([says(TEXT, chunk_delay=0.01)])
    guardrails = perdure.Guardrails(output=upper)
    texts = await perdure.invoke_agent_async(
        scripted_agent(model), {}, guardrails=guardrails, client=client, stream=True
    )
    assert [text for _, text in await pieces(texts)] == [TEXT.upper()]


def test_the_plain_form_gives_a_plain_iterator(
    scripted: Scripted, tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", address)
    texts: Iterator[str] = perdure.invoke_agent(
        scripted_agent(scripted([asks(call("echo")), says(TEXT)]), ["echo"]),
        {},
        [echo],
        stream=True,
    )
    assert "".join(texts) == TEXT
