"""Runs whose model is told of its tools in the prompt, on a real server and over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure.client import RunHandle, RunOptions, session, start_run
from perdure.messages import Message
from perdure.providers.prompted.call import (
    AGENT_INSTRUCTIONS,
    FINAL,
    NO_ACTION_INSTRUCTIONS,
    TOOLS_INSTRUCTIONS,
)
from perdure.testing import ScriptedModel, ScriptedReply, ScriptedRequest, says
from perdure.testing.script import Script

from ..support.agents import WIRES, declared, scripted_agent
from ..support.families import write_agent
from ..support.gates import Gate
from ..support.prompted import ECHO, echo, is_final, two_phases, without_tools
from ..support.stage import Stage

Scripted = Callable[[Script], ScriptedModel]


async def seen_of(run: RunHandle, *types: str) -> list[tuple[str, dict[str, Any]]]:
    return [(event.type, event.data) for event in await run.events() if event.type in types]


@pytest.mark.parametrize("wire", WIRES)
async def test_a_tool_no_action_an_answer(stage: Stage, scripted: Scripted, wire: str) -> None:
    model = scripted(two_phases(ECHO, "{}", answer="The echo returned: hello"))
    async with stage.worker({"echo": echo}):
        run = await stage.start(
            scripted_agent(model, ["echo"], wire=wire), tool_protocol="json", stream=True
        )
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


async def test_a_delegation_to_another_agent(
    stage: Stage, scripted: Scripted, tmp_path: Path
) -> None:
    def reply(request: ScriptedRequest) -> ScriptedReply:
        if request.body["model"] == "researcher":
            return says("Qubits." if is_final(request) else "{}")
        task = '{"agent": "researcher", "task": "Find quantum info"}'
        script = two_phases(
            task, "{}", answer="Based on the research, quantum computing uses qubits."
        )
        assert callable(script)
        return script(request)

    model = scripted(reply)
    settings = {
        "toolProtocol": "json",
        "agents": [
            {"name": "researcher", "path": "researcher.prompty", "description": "Finds out."}
        ],
    }
    chief = write_agent(tmp_path, "chief.prompty", model, metadata={"perdure": settings})
    write_agent(
        tmp_path, "researcher.prompty", model, metadata={"perdure": {"toolProtocol": "json"}}
    )
    async with stage.worker():
        run = await start_run(stage.client, chief, task_queue=stage.task_queue)
        stage.runs.append(run)
        result = await run.result()
    assert result.output == "Based on the research, quantum computing uses qubits."
    [first, *_] = [request for request in model.requests if request.body["model"] == "chief"]
    assert first.messages[0].text == (
        "You are chief.\n\n## Available Agents for Delegation\n- **researcher**: Finds out.\n"
        f"{AGENT_INSTRUCTIONS}\n{NO_ACTION_INSTRUCTIONS}"
    )
    assert model.requests[-1].messages[-2].text == "[Step 1/5] Agent response: Qubits."
    (progress,) = await seen_of(run, "progress")
    assert progress[1] == {
        "type": "progress",
        "step": 1,
        "max_steps": 5,
        "action": "delegate",
        "target": "researcher",
    }


async def test_what_was_refused_is_not_tried_again_by_another_worker(
    stage: Stage, scripted: Scripted
) -> None:
    model, gate = scripted(without_tools(two_phases(ECHO, ECHO, "{}"))), Gate()
    async with stage.worker({"echo": gate}) as worker:
        run = await stage.start(scripted_agent(model, ["echo"]), tool_protocol="auto")
        await gate.reached.wait()
        shutdown = asyncio.create_task(worker.shutdown())
        gate.open.set()
        await shutdown
    async with stage.worker({"echo": echo}):
        assert (await run.result()).output == "Done"
    assert ["tools" in request.body for request in model.requests].count(True) == 1


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


async def test_a_run_in_json_is_forked(stage: Stage, scripted: Scripted) -> None:
    model = scripted(two_phases(ECHO, "{}", answer="First"))
    async with stage.worker({"echo": echo}):
        run = await stage.start(scripted_agent(model, ["echo"]), tool_protocol="json")
        await run.result()
        fork = await run.fork(3, steer="Say it in French")
        stage.runs.append(fork)
        result = await fork.result()
    assert result.output == "First"
    assert [message.text for message in model.requests[-1].messages if message.role == "user"][
        -2:
    ] == [
        "Say it in French",
        FINAL,
    ]


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
