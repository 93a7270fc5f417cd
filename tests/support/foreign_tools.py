"""Declarations of activities and workflows as tools, and a run that calls one of them once."""

from __future__ import annotations

from typing import Any

from perdure.agents import Agent
from perdure.client import RunHandle
from perdure.json_types import JsonObject, JsonView
from perdure.messages import Message
from perdure.testing import asks, call, says

from .agents import Scripted, scripted_agent
from .stage import Stage


def activity(name: str, queue: str, parameters: str = "", **more: Any) -> JsonObject:
    """A tool of `kind: activity`; `parameters` are like `name:string! times:integer`, where `!`
    means required.
    """
    return _tool("activity", name, queue, parameters, more)


def workflow(name: str, queue: str, parameters: str = "", **more: Any) -> JsonObject:
    """A tool of `kind: workflow`."""
    return _tool("workflow", name, queue, parameters, more)


def _tool(kind: str, name: str, queue: str, parameters: str, more: JsonView) -> JsonObject:
    policy = {"perdure": more["perdure"]} if "perdure" in more else {}
    options = {key: value for key, value in more.items() if key != "perdure"}
    return {
        "name": name,
        "kind": kind,
        "description": f"The {kind} {name}.",
        "parameters": [_parameter(written) for written in parameters.split()],
        "options": {kind: name, "taskQueue": queue, **options},
        **policy,
    }


def _parameter(written: str) -> JsonObject:
    name, _, kind = written.partition(":")
    return {"name": name, "kind": kind.rstrip("!"), "required": kind.endswith("!")}


def agent_with(scripted: Scripted, tool: JsonView, **arguments: Any) -> Agent:
    """An agent whose model calls the tool once, and then says `done`."""
    return scripted_agent(
        scripted([asks(call(tool["name"], "c1", **arguments)), says("done")]), [tool]
    )


def answer_of(messages: list[Message]) -> str:
    """The text of the only tool result."""
    (answer,) = [message for message in messages if message.role == "tool"]
    return answer.text


async def answer(stage: Stage, scripted: Scripted, tool: JsonView, **arguments: Any) -> str:
    """What the model is told when it calls the tool with these arguments."""
    run = await stage.start(agent_with(scripted, tool, **arguments))
    return answer_of((await run.result()).messages)


async def started(stage: Stage, scripted: Scripted, tool: JsonView, **arguments: Any) -> RunHandle:
    """A run whose model calls the tool."""
    return await stage.start(agent_with(scripted, tool, **arguments), cancel_grace=0.0)
