"""docs/coming-from.md: agents of other frameworks, brought over; what it shows of perdure runs on a
real server.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.worker import Worker

from perdure.json_types import JsonObject
from perdure.testing import ScriptedModel, asks, says
from perdure.testing.script import Script
from perdure.tools import clear_tools
from perdure.worker import create_worker

from ..support.agents import Scripted
from ..support.waiting import wait_for

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from.md").read_text(encoding="utf-8")
MAX_LINES = 30


@pytest.fixture(autouse=True)
def _environment(address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TEMPORAL_ADDRESS", address)
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    yield
    clear_tools()


def blocks(heading: str, info: str) -> list[str]:
    section = PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(rf"^```{info}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


def shown(heading: str) -> JsonObject:
    names: JsonObject = {"__name__": "shown"}
    [block] = blocks(heading, "python")
    exec(block, names)
    return names


@pytest.fixture
def serve(scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """A scripted model at the address that the page's agents ask."""

    def serve(script: Script) -> ScriptedModel:
        model = scripted(script)
        monkeypatch.setenv("OPENAI_BASE_URL", model.openai_endpoint)
        return model

    return serve


async def test_from_pydantic_ai(serve: Scripted) -> None:
    model = serve([asks("order", number="A-1"), says('{"status": "sent", "days": 2}')])
    names = await asyncio.to_thread(shown, "From pydantic-ai")
    assert names["answer"] == names["Answer"](status="sent", days=2)
    assert model.requests[1].messages[-1].text == "north has sent A-1"


async def test_from_the_openai_agents_sdk(serve: Scripted, client: Client) -> None:
    model = serve([asks("weather", city="Oslo"), says("Sunny."), says("Still sunny.")])
    names = shown("From the OpenAI Agents SDK")
    async with create_worker(client, tools=[names["helper"]]):
        assert await names["talk"](client) == ["Sunny.", "Still sunny."]
    said = [message.text for message in model.requests[2].messages if message.text]
    assert said[-4:] == ["How is Oslo?", "sunny in Oslo", "Sunny.", "And tomorrow?"]


async def test_from_langgraph_with_an_interrupt(serve: Scripted, client: Client) -> None:
    model = serve([asks("send", to="ada@example.com", text="Come!"), says("Invited.")])
    names = shown("From LangGraph, with an interrupt")
    async with create_worker(client, tools=[names["writer"]]):
        await names["begin"](client)
        run = names["perdure"].get_run(client, "mail-7")

        async def waits() -> bool:
            return bool((await run.status()).pending_approvals)

        await wait_for(waits)
        assert len(model.requests) == 1
    async with create_worker(client, tools=[names["writer"]]):
        assert await names["decide"](client) == "Invited."
    assert model.requests[1].messages[-1].text == "sent to ada@example.com"


async def test_from_a_temporal_workflow_of_ones_own(serve: Scripted, client: Client) -> None:
    model = serve([asks("find_order", number="A-1"), says("On Monday.")])
    names = shown("From a Temporal workflow of your own")
    async with (
        Worker(client, task_queue="orders", activities=[names["find_order"]]),
        create_worker(client, tools=[names["support"]]),
    ):
        assert await names["ask"](client) == "On Monday."
    assert model.requests[1].messages[-1].text == "A-1 was sent on Monday"


def test_each_side_is_short() -> None:
    headings = re.findall(r"^## (From .*)$", PAGE, re.MULTILINE)
    assert len(headings) == 4
    for heading in headings:
        [ours], [theirs] = blocks(heading, "python"), blocks(heading, "python [a-z-]+")
        for block in (ours, theirs):
            assert len(block.splitlines()) <= MAX_LINES, heading
