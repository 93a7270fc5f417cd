"""Other agents as tools, end to end: one call, two levels, many at once, and what goes wrong in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from perdure.client import RunHandle, get_run
from perdure.messages import Message
from perdure.prompty.load import load
from perdure.testing import ScriptedModel, asks, call, says
from perdure.testing.script import Script

from ..workflows.stage import Stage
from .families import calls, family_script, takes, write_agent

Scripted = Callable[[Script], ScriptedModel]


def tool_texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages if message.role == "tool"]


async def child_of(stage: Stage, run: RunHandle, place: str) -> RunHandle:
    child: RunHandle = get_run(stage.client, f"{run.id}/{place}")
    stage.runs.append(child)
    return child


async def test_two_levels_deep(stage: Stage, scripted: Scripted, tmp_path: Path) -> None:
    model = scripted(
        family_script(
            {
                "chief": [asks(call("clerk", topic="ships")), says("Ships float.")],
                "clerk": [asks(call("reader", page=3)), says("They float, says page 3.")],
                "reader": [says("Page 3: wood floats.", input_tokens=5, output_tokens=2)],
            }
        )
    )
    chief = write_agent(
        tmp_path, "chief.prompty", model, tools=[calls("team/clerk.prompty", description="Asks a clerk.")]
    )
    write_agent(
        tmp_path,
        "team/clerk.prompty",
        model,
        tools=[{**calls("../books/reader.prompty"), "mode": "single"}],
        inputs=takes("topic"),
        prompt="system:\nYou are a clerk.\n\nuser:\nAbout {{topic}}.",
    )
    write_agent(
        tmp_path,
        "books/reader.prompty",
        model,
        tools=[calls("gone.prompty")],
        description="Reads a page.",
        inputs=[{"name": "page", "kind": "integer", "required": True}],
        prompt="user:\nRead page {{page}}.",
    )
    async with stage.worker():
        run = await stage.start(load(chief))
        result = await run.result()
    assert result.output == "Ships float."
    assert tool_texts(result.messages) == ["They float, says page 3."]
    clerk = await child_of(stage, run, "1-0")
    assert tool_texts(await clerk.messages()) == ["Page 3: wood floats."]
    assert [message.text for message in await clerk.messages()][:2] == ["You are a clerk.", "About ships."]
    reader = await child_of(stage, clerk, "1-0")
    assert (await reader.messages())[0].text == "Read page 3."
    asked = {request.body["model"]: request.body for request in model.requests}
    assert asked["chief"]["tools"][0]["function"] == {
        "name": "clerk",
        "description": "Asks a clerk.",
        "parameters": {"type": "object", "properties": {"topic": {"type": "string"}}, "required": ["topic"]},
    }
    assert asked["clerk"]["tools"][0]["function"]["description"] == "Reads a page."
    assert not asked["reader"].get("tools")
