"""Runs whose model is told of its tools in the prompt, on a real server and over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from perdure.client import RunHandle, RunOptions, session, start_run
from perdure.messages import Message
from perdure.providers.prompted.call import (
    FINAL,
    NO_ACTION_INSTRUCTIONS,
    TOOLS_INSTRUCTIONS,
)
from perdure.testing import ScriptedModel, ScriptedReply, ScriptedRequest, says
from perdure.testing.script import Script

from ..support.agents import declared, scripted_agent
from ..support.families import write_agent
from ..support.prompted import ECHO, echo, is_final, two_phases
from ..support.stage import Stage

Scripted = Callable[[Script], ScriptedModel]


async def test_a_tool_no_action_an_answer(stage: Stage, scripted: Scripted) -> None:
    model = scripted(two_phases(ECHO, "{}", answer="The echo returned: hello"))
    async with stage.worker({"echo": echo}):
        run = await stage.start(scripted_agent(model, ["echo"]), tool_protocol="json", stream=True)
        shown = [event async for event in run.stream() if event.type == "token"]
        result = await run.result()
        live = "".join(event.data["token"] for event in shown)
    assert (result.output, live, result.iterations) == (
        "The echo returned: hello",
        "The echo returned: hello",
        3,
    )
    assert not any("tools" in request.body for request in model.requests)
    assert [request.is_streaming for request in model.requests] == [False, False, True]
    assert [message.role for message in result.messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    system, *others = [(message.role, message.text) for message in model.requests[2].messages]
    told = "".join(text for role, text in others if role == "user")
    assert others[:2] == [("user", "What is it?"), ("assistant", ECHO)]
    assert '[Step 1/10] Tool result: "Echo: hello"' in told
    assert told.endswith(FINAL)
    parameters = json.dumps(
        {"type": "object", "properties": {"text": {"type": "string"}}}, indent=2
    )
    assert system == (
        "system",
        "You are helpful.\n\n## Available Tools\n"
        f"- **echo**: \n  Parameters: {parameters}\n{TOOLS_INSTRUCTIONS}\n{NO_ACTION_INSTRUCTIONS}",
    )


def broken(text: str = "") -> str:
    raise ValueError("no such text")


async def _started(stage: Stage, folder: Path, model: ScriptedModel, protocol: str) -> RunHandle:
    agents = [{"name": "clerk", "path": "clerk.prompty"}]
    metadata = {"kaos": {"max_steps": 7}, "perdure": {"toolProtocol": protocol, "agents": agents}}
    tools = [declared("echo"), declared("broken")]
    chief = write_agent(folder, "chief.prompty", model, metadata=metadata, tools=tools)
    write_agent(folder, "clerk.prompty", model)
    run = await start_run(
        stage.client, chief, task_queue=stage.task_queue, messages=[Message.user("How many?")]
    )
    stage.runs.append(run)
    return run


def _parsed(data: dict[str, Any]) -> dict[str, Any]:
    known = {key: value for key, value in data.items() if key != "messages"}
    return {**known, "arguments": json.loads(data["arguments"])} if "arguments" in data else known


async def test_the_turns_of_a_session(stage: Stage, scripted: Scripted) -> None:
    def reply(request: ScriptedRequest) -> ScriptedReply:
        if is_final(request):
            return says("Done")
        return says("{}" if request.messages[-1].text.startswith("[Step") else ECHO)

    model = scripted(reply)
    async with stage.worker({"echo": echo}):
        options = RunOptions(tool_protocol="json")
        talk = session(
            stage.client,
            scripted_agent(model, ["echo"]),
            stage.task_queue,
            task_queue=stage.task_queue,
            options=options,
        )
        for text in ("One", "Two"):
            run = await talk.send(text)
            stage.runs.append(run)
            assert (await run.result()).output == "Done"
        await talk.close()
    result = '[Step 1/10] Tool result: "Echo: hello"'
    sent = [message.text for message in model.requests[-1].messages if message.role != "system"]
    assert sent == ["One", ECHO, result, "Done", "Two", ECHO, result, FINAL]
