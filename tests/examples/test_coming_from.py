"""docs/coming-from.md: agents of other frameworks, brought over; what it shows of perdure runs on a
real server.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.worker import Worker

from perdure.json_types import JsonObject
from perdure.prompty.worker_limits import OPEN
from perdure.testing import ScriptedModel, asks, says
from perdure.testing.script import Script
from perdure.tools import clear_tools
from perdure.worker import create_worker

from ..support.agents import Scripted
from ..support.documents import manual
from ..support.waiting import asked

PAGE = manual("coming-from.md")
MAX_LINES = 30
Files = Callable[[str], JsonObject]


@pytest.fixture(autouse=True)
def _environment(address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TEMPORAL_ADDRESS", address)
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    yield
    clear_tools()


def blocks(heading: str, info: str) -> list[str]:
    return re.findall(rf"^```{info}\n(.*?)^```$", section(heading), re.MULTILINE | re.DOTALL)


def section(heading: str) -> str:
    return PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


def shown(heading: str) -> JsonObject:
    names: JsonObject = {"__name__": "shown"}
    [block] = blocks(heading, "python")
    exec(block, names)
    return names


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    """Writes the file of a section into the working directory; gives what its code defines."""

    def files(heading: str) -> JsonObject:
        monkeypatch.chdir(tmp_path)
        [name] = re.findall(r"^```yaml (\S+\.prompty)$", section(heading), re.MULTILINE)
        (tmp_path / name).write_text(blocks(heading, f"yaml {name}")[0], encoding="utf-8")
        return shown(heading)

    return files


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

        await asked(run)
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


async def test_from_a_prompty_runtime(serve: Scripted, files: Files) -> None:
    model = serve([asks("get_weather", city="Oslo"), says("Sunny.")])
    names = await asyncio.to_thread(files, "From a Prompty runtime")
    assert names["answer"] == "Sunny."
    assert model.requests[1].messages[-1].text == "sunny in Oslo"


async def test_from_kaos(
    serve: Scripted, files: Files, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    action = json.dumps({"tool": "echo", "arguments": {"text": "hello"}})
    left = [action, "{}", "The tool says hello."]
    model = serve(lambda request: says(left.pop(0)))
    monkeypatch.setenv("MODEL_API_URL", model.openai_endpoint)
    monkeypatch.setenv("MODEL_API_KEY", "any")
    names = files("From KAOS")
    async with create_worker(client, tools=[names["echo"]], limits=OPEN):
        assert await names["talk"](client) == "The tool says hello."


async def test_from_octopus(
    scripted: Scripted, files: Files, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = scripted([asks("get_leave_balance", employee="EMP-1042"), says("12 days.")])
    monkeypatch.setenv("ANTHROPIC_BASE_URL", model.anthropic_endpoint)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "any")
    names = files("From Octopus")
    async with create_worker(client, tools=[names["get_leave_balance"]]):
        seen, answer = await names["chat"](client)
    assert (answer, seen[0], seen[-1]) == ("12 days.", "turn_start", "turn_end")
    assert {"tool_call", "tool_result", "token"} <= {*seen}


def test_each_side_is_short() -> None:
    headings = re.findall(r"^## (From .*)$", PAGE, re.MULTILINE)
    assert len(headings) == 7
    for heading in headings:
        theirs = r"(?:python|yaml|json) (?:pydantic-ai|openai-agents|langgraph|prompty|kaos|octopus|temporal)"
        for block in (*blocks(heading, "python"), *blocks(heading, theirs)):
            assert len(block.splitlines()) <= MAX_LINES, heading
        assert len(blocks(heading, theirs)) == len(blocks(heading, "python")) == 1, heading
