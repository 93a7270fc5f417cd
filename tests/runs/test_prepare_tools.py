"""A function decides in each step which tools the model is offered; what it says is recorded."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

import perdure
from perdure import RunError, ToolContext
from perdure.guardrails import PrepareTools, prepare_functions
from perdure.providers.base import FunctionDefinition
from perdure.testing import ScriptedModel, asks, run_in_process, says

from ..support.agents import Scripted, scripted_agent, tool_texts
from ..support.stage import Stage
from ..support.worker_process import in_turn


def step(text: str = "") -> str:
    return f"step {text} done"


def pay(text: str = "") -> str:
    return f"paid {text}"


async def urgently(
    tools: list[FunctionDefinition], context: ToolContext[Any]
) -> list[FunctionDefinition]:
    await asyncio.sleep(0)
    assert context.conversation[-1].role == ("user" if context.iteration == 1 else "tool")
    return [tool._replace(description=f"Now: {tool.name}") for tool in in_turn(tools, context)]


def offered(model: ScriptedModel) -> list[list[str]]:
    return [
        [tool["function"]["name"] for tool in each.body.get("tools") or ()]
        for each in model.requests
    ]


async def test_the_model_is_offered_what_the_function_returns(
    stage: Stage, scripted: Scripted
) -> None:
    model = scripted([asks("step", text="1"), asks("step", text="2"), says("Done.")])
    async with stage.worker([step, pay], prepare_tools={"in_turn": urgently}):
        run = await stage.start(scripted_agent(model, ["step", "pay"]), prepare_tools="in_turn")
        result = await run.result()
    assert offered(model) == [["step"], ["pay"], []]
    descriptions = [tool["function"].get("description") for tool in model.requests[0].body["tools"]]
    assert descriptions == ["Now: step"]
    results = tool_texts(result.messages)
    assert results[0] == "step 1 done"
    assert results[1].startswith("Error: Tool not registered: step.")
    assert "pay" in results[1]
    said = [event.data["tools"] for event in await run.events() if event.type == "llm_start"]
    assert said == [["step"], ["pay"], []]


def broken(tools: list[FunctionDefinition]) -> list[str]:
    raise LookupError("no phase")


def stranger(tools: list[FunctionDefinition]) -> list[str]:
    return ["stop"]


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (
            stranger,
            "No tools to offer: the function 'chosen' failed: TypeError: 'stop' is not one of the "
            "tools: step, pay",
        ),
        (
            None,
            "no prepare_tools named 'chosen' on this worker (registered: none): put "
            "@perdure.prepare_tools above",
        ),
    ],
)
async def test_a_function_that_decides_nothing_fails_the_run(
    stage: Stage, scripted: Scripted, function: PrepareTools | None, text: str
) -> None:
    model = scripted([says("Done.")])
    async with stage.worker([step, pay], prepare_tools={"chosen": function} if function else None):
        agent = scripted_agent(model, ["step", "pay"])
        run = await stage.start(agent, prepare_tools="chosen", missing_tool_grace=0.0)
        with pytest.raises(RunError, match=re.escape(text)):
            await run.result()
    assert not model.requests


def test_a_file_names_it(tmp_path: Path) -> None:
    asked: list[Sequence[str]] = []

    @perdure.prepare_tools
    def by_tenant(tools: list[FunctionDefinition], context: ToolContext[Any]) -> list[str]:
        return ["step"] if context.deps["tenant"] == "a" else ["pay"]

    def model(agent: perdure.Agent, messages: Any) -> Any:
        asked.append([tool.name for tool in agent.tools or ()])
        return says("Done.")

    file = tmp_path / "a.prompty"
    settings = "metadata: {perdure: {prepareTools: by_tenant}}"
    file.write_text(
        f"---\nmodel: m\n{settings}\ntools: [{{name: step}}, {{name: pay}}]\n---\nuser:\nHi.\n"
    )
    try:
        for tenant in ("a", "b"):
            run_in_process(file, model=model, tools=[step, pay], deps={"tenant": tenant})
    finally:
        prepare_functions.clear()
    assert asked == [["step"], ["pay"]]


async def test_an_agent_in_code_brings_it(
    client: Client, task_queue: str, scripted: Scripted
) -> None:
    model = scripted([asks("step"), says("Done."), asks("step"), says("Done.")])
    agent = perdure.agent(
        "openai/m",
        tools=[step, pay],
        prepare_tools=in_turn,
        connection={"endpoint": model.openai_endpoint},
    )
    assert await perdure.invoke_agent_async(agent, "?", client=client) == "Done."
    async with perdure.create_worker(
        client, task_queue=task_queue, tools=[agent], registered_tools=False
    ):
        run = await perdure.start_run(client, agent, "?", task_queue=task_queue)
        assert (await run.result()).output == "Done."
    assert offered(model) == [["step"], ["pay"]] * 2
