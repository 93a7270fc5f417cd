"""Details of heartbeats that can't be sent: the tool is told so, and is not executed again."""

from __future__ import annotations

import asyncio
from typing import Any

from temporalio import activity

from perdure import ToolContext
from perdure.json_types import JsonObject
from perdure.testing import asks, call, says

from ..support.agents import Scripted, scripted_agent, tool_texts
from ..support.stage import Stage


def unsendable() -> JsonObject:
    circle: list[Any] = []
    circle.append(circle)
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    return {
        "object": object(),
        "half": "\ud800",
        "circle": circle,
        "deep": deep,
        "function": unsendable,
    }


async def test_details_that_can_not_be_sent(stage: Stage, scripted: Scripted) -> None:
    executions: list[str] = []

    async def with_context(what: str, context: ToolContext) -> str:
        executions.append(what)
        context.heartbeat(unsendable()[what])
        await asyncio.sleep(60)
        return "went on"

    def by_the_sdk(what: str) -> str:
        executions.append(f"sdk {what}")
        activity.heartbeat(unsendable()[what])
        raise AssertionError("went on")

    tools = {"with_context": with_context, "by_the_sdk": by_the_sdk}
    declared = [
        {
            "name": name,
            "kind": "function",
            "parameters": [{"name": "what", "kind": "string", "required": True}],
        }
        for name in tools
    ]
    model = scripted(
        [asks(*(call(name, what=what) for name in tools for what in unsendable())), says("done")]
    )
    async with stage.worker(tools):
        run = await stage.start(scripted_agent(model, declared), parallel_tool_calls=True)
        result = await run.result()
    texts = tool_texts(result.messages)
    assert len(texts) == 10
    assert all(
        "failed: TypeError: heartbeat details need a JSON form" in text for text in texts[:5]
    ), texts
    assert all("failed: " in text and "went on" not in text for text in texts[5:]), texts
    assert sorted(executions) == sorted([*unsendable(), *(f"sdk {what}" for what in unsendable())])
