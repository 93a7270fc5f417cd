"""The AI SDK's own chat, against agents that are served."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from perdure.testing import ScriptedModel, asks, call, says
from perdure.testing.script import Script

from ..support.agents import scripted_agent
from ..support.chat_clients import chat_clients
from .conftest import Serve
from .test_own import PAY, pay

Scripted = Callable[[Script], ScriptedModel]
TEXT = " ".join(f"word{number}" for number in range(60))


def texts_of(message: dict[str, Any]) -> str:
    return "".join(part["text"] for part in message["parts"] if part["type"] == "text")


def tools_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [part for part in message["parts"] if part["type"] == "dynamic-tool"]


async def test_a_chat_goes_on_and_an_approval_is_decided_in_it(scripted: Scripted, serve_agents: Serve) -> None:
    model = scripted([says("Hello."), asks(call("pay", euros=3), text="I shall pay."), says(TEXT), says("Again.")])
    agent = scripted_agent(model, [PAY])
    async with serve_agents(agent, tools={"pay": pay}) as served, chat_clients() as clients:
        id = served.gateway.task_queue
        api = f"{served.url}/ai/tested"
        await clients.make("ai-sdk", "page", package="ai", api=api, id=id, automatic=True)
        first = await clients.do("page", "send", text="Hi")
        assert [texts_of(each) for each in first["messages"]] == ["Hi", "Hello."]
        assert first["messages"][1]["id"] == f"{id}/1"
        asked = await clients.do("page", "send", text="Pay 3 euros")
        (tool,) = tools_of(asked["messages"][-1])
        assert (tool["state"], tool["input"], texts_of(asked["messages"][-1])) == (
            "approval-requested",
            {"euros": 3},
            "I shall pay.",
        )
        assert asked["status"] == "ready"
        await clients.do("page", "approve", id=tool["approval"]["id"], approved=True)
        done = await until(clients, "page", lambda state: texts_of(state["messages"][-1]) != "I shall pay.")
        assert texts_of(done["messages"][-1]) == "I shall pay." + TEXT
        (tool,) = tools_of(done["messages"][-1])
        assert (tool["state"], tool["output"]) == ("output-available", "paid 3")
        assert (done["requests"], done["errors"], len(done["messages"])) == (3, [], 4)
    assert len(model.requests) == 3


async def until(clients: Any, name: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    for _ in range(200):
        state: dict[str, Any] = await clients.do(name, "state")
        if holds(state) and state["status"] in ("ready", "error"):
            return state
        await asyncio.sleep(0.05)
    raise AssertionError(state)
