"""What a run gives: answers, tool results, usage, typed output."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated

import pytest
from typing_extensions import TypedDict

from perdure.client import get_run
from perdure.testing import ScriptedModel, asks, call, says
from perdure.testing.script import Script
from perdure.tools import tool

from ..support.agents import QUESTION, WIRES, scripted_agent
from ..support.stage import Stage

Scripted = Callable[[Script], ScriptedModel]


class Truth(TypedDict):
    is_true: bool


@tool
def shout(text: Annotated[str, "what to shout"] = "") -> str:
    """Shout."""
    return text.upper()


@pytest.mark.parametrize("wire", WIRES)
async def test_gives_the_answer_and_the_conversation(
    stage: Stage, scripted: Scripted, wire: str
) -> None:
    model = scripted([asks(call("shout", text="hi"), text="I shout."), says("HI it is")])
    async with stage.worker([shout]):
        run = await stage.start(scripted_agent(model, ["shout"], wire=wire))
        result = await run.result()
    assert result.output == "HI it is"
    assert result.iterations == 2
    assert not result.is_incomplete
    assert [message.role for message in result.messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert result.messages[:2] == QUESTION
    assert result.messages[2].text == "I shout."
    assert result.messages[3].text == "HI"
    assert result.messages[3].metadata == {"tool_call_id": "call_shout"}


@pytest.mark.parametrize("wire", WIRES)
async def test_gives_a_typed_result(stage: Stage, scripted: Scripted, wire: str) -> None:
    model = scripted([says('{"city": "Paris", "degrees": 21}')])
    outputs = [{"name": "city", "kind": "string"}, {"name": "degrees", "kind": "integer"}]
    async with stage.worker():
        result = await (
            await stage.start(scripted_agent(model, wire=wire, outputs=outputs))
        ).result()
    assert result.output == {"city": "Paris", "degrees": 21}
    assert result.messages[-1].text == '{"city": "Paris", "degrees": 21}'


async def test_gives_the_providers_own_response_when_raw(stage: Stage, scripted: Scripted) -> None:
    agent = scripted_agent(
        scripted([says("yes")]), outputs=[{"name": "is_true", "kind": "boolean"}]
    )
    async with stage.worker():
        run = await stage.start(agent, raw=True)
        result = await get_run(stage.client, run.id, output_type=Truth).result()
    assert result.output == {**result.output, "object": "chat.completion"}


async def test_runs_parallel_tools_together_and_keeps_the_order_asked_for(
    stage: Stage, scripted: Scripted
) -> None:
    started: list[str] = []
    all_started = asyncio.Event()

    async def wait(text: str = "") -> str:
        started.append(text)
        if len(started) == 3:
            all_started.set()
        await asyncio.wait_for(all_started.wait(), 5)
        if text == "b":
            raise RuntimeError("b broke")
        return text

    model = scripted(
        [asks(*(call("wait", f"call_{text}", text=text) for text in "abc")), says("done")]
    )
    async with stage.worker({"wait": wait}):
        run = await stage.start(scripted_agent(model, ["wait"]), parallel_tool_calls=True)
        result = await run.result()
    assert [message.text for message in result.messages if message.role == "tool"] == [
        "a",
        "Error: Tool 'wait' failed: RuntimeError: b broke",
        "c",
    ]


async def test_another_handle_gives_the_same_result(stage: Stage, scripted: Scripted) -> None:
    async with stage.worker([shout]):
        run = await stage.start(
            scripted_agent(scripted([asks(call("shout", text="x")), says("done")]), ["shout"])
        )
        result = await run.result()
    assert await get_run(stage.client, run.id).result() == result
