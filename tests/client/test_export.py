"""An export has everything of a run: what was said, asked, executed and told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import TypeAdapter

from perdure.client import RunHandle
from perdure.conversation import Conversation, Operation
from perdure.json_types import JsonObject
from perdure.messages import Message
from perdure.testing import ScriptedReply, asks, call, says
from perdure.tools import tool

from ..support.agents import Scripted, scripted_agent
from ..support.gates import Gate
from ..support.stage import Stage
from ..support.waiting import asked, wait_for

OPERATION: TypeAdapter[Any] = TypeAdapter(Operation)


def echo(text: str = "") -> str:
    return f"echo of {text}"


@tool(needs_approval=True)
def pay(text: str = "") -> str:
    return "paid"


@tool(local=True)
def look(text: str = "") -> str:
    return f"saw {text}"


def fail(text: str = "") -> str:
    raise ValueError("no luck")


async def lines_of(run: RunHandle, **more: bool) -> list[JsonObject]:
    lines = [line async for line in run.export(**more)]
    assert [json.loads(json.dumps(line)) for line in lines] == lines
    return lines


def conversation(lines: list[JsonObject]) -> list[Message]:
    """What the operations of the lines lead to."""
    [run] = [line for line in lines if line["kind"] == "run"]
    said = Conversation([Message.model_validate(message) for message in run["messages"]])
    for line in lines:
        for operation in line.get("operations", []):
            said.apply(OPERATION.validate_python(operation))
    return said.messages


async def test_everything_of_a_run(stage: Stage, scripted: Scripted) -> None:
    model = scripted(
        [
            [
                ScriptedReply(status=503),
                asks(call("echo", "a", text="one"), call("fail", "b"), call("nothing", "c")),
            ],
            asks(call("look", "d", text="sky"), call("pay", "e", text="much"), text="Paying."),
            says("done", input_tokens=7, output_tokens=2),
        ]
    )
    async with stage.worker([echo, pay, look, fail]):
        run = await stage.start(scripted_agent(model, ["echo", "fail", "look", "pay"]))
        await asked(run)
        open_lines = await lines_of(run)
        await run.approve("e", arguments={"text": "little"}, by="ann")
        result = await run.result()
    lines = await lines_of(run)

    assert [line["kind"] for line in lines][:2] == ["export", "run"]
    assert lines[-1]["kind"] == "end"
    started, end = lines[1], lines[-1]
    assert (started["status"], started["agent"]["name"], started["options"]["max_iterations"]) == (
        "done",
        "tested",
        10,
    )
    assert [tool["name"] for tool in started["tools"]] == ["echo", "fail", "look", "pay"]
    assert (end["status"], end["modelCalls"], end["result"]["output"]) == ("done", 3, "done")
    assert end["usage"]["total_tokens"] == result.usage.total_tokens
    assert conversation(lines) == result.messages

    models = [line for line in lines if line["kind"] == "model_call"]
    assert [(line["iteration"], line["try"]) for line in models] == [(1, 1), (1, 2), (2, 1), (3, 1)]
    assert models[0]["failure"]["status"] == 503
    assert models[0]["reply"] is None
    assert models[3]["reply"]["usage"]["input_tokens"] == 7
    assert models[3]["settings"]["model"] == "scripted"
    assert all(line["scheduled"] <= line["started"] <= line["ended"] for line in models)

    tools = {line["id"]: line for line in lines if line["kind"] == "tool_call"}
    assert [(line["name"], line["by"], line["status"]) for line in tools.values()] == [
        ("echo", "tool", "success"),
        ("fail", "tool", "error"),
        ("nothing", None, "error"),
        ("look", "local", "success"),
        ("pay", "tool", "success"),
    ]
    assert tools["a"]["arguments"] == {"text": "one"}
    assert tools["a"]["result"]["parts"][0]["value"] == "echo of one"
    assert tools["e"]["arguments"] == {"text": "little"}
    assert json.loads(tools["e"]["asked"]) == {"text": "much"}
    assert tools["e"]["result"]["parts"][0]["value"] == "paid"
    assert "a person edited" in tools["e"]["told"]["parts"][0]["value"]
    assert "told" not in tools["a"]

    events = [line for line in lines if line["kind"] == "event"]
    assert [line["seq"] for line in events] == [event.seq for event in await run.events()]
    assert events[-1]["type"] == "done"

    assert open_lines[1]["status"] == "running"
    assert open_lines[-1]["status"] == "waiting_for_approval"
    assert [line["status"] for line in open_lines if line["kind"] == "tool_call"][3:] == [
        "success",
        "running",
    ]
    assert [line["kind"] for line in await lines_of(run, events=False)].count("event") == 0


async def test_steering_cancellation_and_what_is_secret(
    stage: Stage, scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate("gone")
    model = scripted([asks("wait"), says("done")])
    async with stage.worker({"wait": gate}):
        run = await stage.start(scripted_agent(model, ["wait"]), cancel_grace=0)
        await run.steer("hurry, the word is swordfish-and-more-of-it")
        await gate.reached.wait()
        await run.cancel("enough")
        gate.open.set()
        await wait_for(lambda: _ended(run))
    # What becomes known as a secret later is none of the export's business, but does not leave by
    # it either.
    monkeypatch.setenv("SOME_API_KEY", "swordfish-and-more-of-it")
    lines = await lines_of(run)
    assert "swordfish" not in json.dumps(lines)
    [called] = [line for line in lines if line["kind"] == "model_call"]
    assert called["steering"] in ([], ["hurry, the word is ${env:SOME_API_KEY}"])
    assert (lines[1]["status"], lines[-1]["status"]) == ("cancelled", "cancelled")
    assert "result" not in lines[-1]
    assert conversation(lines)[-1].role in ("tool", "user")


async def _ended(run: RunHandle) -> bool:
    return (await run.status()).status == "cancelled"
