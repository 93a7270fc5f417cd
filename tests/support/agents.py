"""Agents for tests: a model that is scripted over HTTP, in each of the three wire formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from perdure.agents import Agent
from perdure.json_types import JsonObject, JsonView
from perdure.messages import Message
from perdure.testing import ScriptedModel
from perdure.testing.script import Script

WIRES = ("openai-chat", "openai-responses", "anthropic")
"""The wire formats, by the names that tests show."""

Scripted = Callable[[Script], ScriptedModel]
"""The fixture `scripted`."""

QUESTION = [Message.system("You are helpful."), Message.user("What is it?")]


def scripted_agent(
    model: ScriptedModel,
    tools: Iterable[str | JsonView] = (),
    *,
    wire: str = "openai-chat",
    api_key: str | None = None,
    **fields: Any,
) -> Agent:
    """An agent on `model`; a tool given by its name takes the string `text`, optional."""
    return Agent.model_validate(
        {
            "name": "tested",
            "model": {"id": "scripted", **_connection(model, wire, api_key)},
            "tools": [declared(tool) for tool in tools],
            **fields,
        }
    )


def _connection(model: ScriptedModel, wire: str, api_key: str | None) -> JsonObject:
    is_anthropic = wire == "anthropic"
    endpoint = model.anthropic_endpoint if is_anthropic else model.openai_endpoint
    return {
        "provider": "anthropic" if is_anthropic else "openai",
        "apiType": "responses" if wire == "openai-responses" else "chat",
        "connection": {
            "kind": "key",
            "endpoint": endpoint,
            **({"apiKey": api_key} if api_key else {}),
        },
    }


def declared(tool: str | JsonView) -> JsonObject:
    if not isinstance(tool, str):
        return dict(tool)
    return {"name": tool, "kind": "function", "parameters": [{"name": "text", "kind": "string"}]}


def tool_texts(messages: Iterable[Message]) -> list[str]:
    """The texts of the tool results."""
    return [message.text for message in messages if message.role == "tool"]
