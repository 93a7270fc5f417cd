"""How calls of a tool are executed: retries, local activities, and what the file says of both."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import ToolContext, tool
from perdure.errors import ConfigurationError
from perdure.json_types import JsonObject
from perdure.testing import asks, call, says

from ..support.agents import Scripted, scripted_agent, tool_texts
from ..support.stage import Stage
from ..support.unknown_outcomes import FIND_OUT, NEEDS_APPROVAL


class Failing:
    """A tool that fails a number of times, and what it saw of each execution."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.seen: list[ToolContext] = []

    def __call__(self, context: ToolContext) -> str:
        self.seen.append(context)
        if len(self.seen) <= self.failures:
            raise OSError("busy")
        return "ok"


def policy(name: str, **fields: Any) -> JsonObject:
    return {"name": name, "kind": "function", "parameters": [], "perdure": fields}


async def last_result(
    stage: Stage, scripted: Scripted, tools: Any, declared: JsonObject, **options: Any
) -> str:
    model = scripted([asks(call(declared["name"])), says("done")])
    async with stage.worker(tools):
        run = await stage.start(scripted_agent(model, [declared]), **options)
        result = await run.result()
    return result.messages[-2].text


async def activity_types(stage: Stage) -> list[str]:
    history = await stage.client.get_workflow_handle(stage.runs[-1].id).fetch_history()
    scheduled = [
        event.activity_task_scheduled_event_attributes.activity_type.name
        for event in history.events
    ]
    return [name for name in scheduled if name.startswith("perdure.tool.")]


async def test_a_failed_execution_is_repeated_with_the_same_key(
    stage: Stage, scripted: Scripted
) -> None:
    work = Failing(2)
    text = await last_result(stage, scripted, {"work": work}, policy("work", retries=3))
    assert text == "ok"
    assert [each.attempt for each in work.seen] == [1, 2, 3]
    assert len({each.idempotency_key for each in work.seen}) == 1
    assert await activity_types(stage) == ["perdure.tool.work"] * 3


async def test_what_may_have_taken_effect_is_not_repeated(stage: Stage, scripted: Scripted) -> None:
    started = []

    async def work() -> None:
        started.append(1)
        await asyncio.sleep(20)

    declared = policy("work", retries=3, idempotent=False, timeout=0.2)
    text = await last_result(stage, scripted, {"work": work}, declared)
    assert text == f"Error: Tool 'work' failed: timed out after 0.2 seconds{NEEDS_APPROVAL}"
    assert started == [1]


async def test_a_mistake_of_the_model_s_is_not_repeated(stage: Stage, scripted: Scripted) -> None:
    def work(number: int) -> int:
        return number

    declared = {
        **policy("work", retries=3),
        "parameters": [{"name": "number", "kind": "integer", "required": True}],
    }
    text = await last_result(stage, scripted, {"work": work}, declared)
    assert "'number' is required" in text
    assert await activity_types(stage) == ["perdure.tool.work"]


async def test_a_local_tool_takes_one_event(stage: Stage, scripted: Scripted) -> None:
    def add(a: int, b: int) -> int:
        return a + b

    parameters = [{"name": name, "kind": "integer", "required": True} for name in "ab"]
    declared = {**policy("add", local=True), "parameters": parameters}
    model = scripted([asks(call("add", a=1, b=2)), asks(call("add", a=3, b=4)), says("10")])
    async with stage.worker([add]):
        run = await stage.start(scripted_agent(model, [declared]))
        result = await run.result()
    assert tool_texts(result.messages) == ["3", "7"]
    assert await activity_types(stage) == []


async def test_a_local_tool_that_takes_too_long(stage: Stage, scripted: Scripted) -> None:
    async def slow() -> None:
        await asyncio.sleep(20)

    text = await last_result(stage, scripted, [slow], policy("slow", local=True))
    assert text == (
        "Error: Tool 'slow' failed: timed out after 2 seconds; it is local, and a local tool has 2 "
        f"seconds: remove `local` from its declaration{FIND_OUT}"
    )


async def test_a_local_tool_whose_worker_lacks_it(stage: Stage, scripted: Scripted) -> None:
    def look() -> str:
        return "seen"

    model = scripted([asks(call("look")), says("done")])
    async with stage.worker(), stage.another_worker([look]):
        run = await stage.start(scripted_agent(model, [policy("look", local=True)]))
        assert (await run.result()).messages[-2].text == "seen"


def test_local_and_not_idempotent_contradict_each_other() -> None:
    with pytest.raises(ConfigurationError, match="tool 'pay' is local and not idempotent"):
        tool(name="pay", local=True, idempotent=False)(lambda: None)
