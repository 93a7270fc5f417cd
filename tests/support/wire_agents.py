"""Agents and messages for the wire tests, written as `.prompty` files and JSON have them."""

from __future__ import annotations

from typing import Any

from perdure.agents import Agent
from perdure.json_types import JsonObject

CHAT = ("openai", "chat")
RESPONSES = ("openai", "responses")
ANTHROPIC = ("anthropic", "chat")
APIS = (CHAT, RESPONSES, ANTHROPIC)


def agent(
    api: tuple[str, str] = CHAT,
    *,
    options: JsonObject | None = None,
    connection: JsonObject | None = None,
    **fields: Any,
) -> Agent:
    """An agent of that (provider, apiType)."""
    provider, api_type = api
    model = {
        "id": "m",
        "provider": provider,
        "apiType": api_type,
        "options": options,
        "connection": connection,
    }
    return Agent.model_validate({"model": model, **fields})


def message(role: str, content: Any, /, **metadata: Any) -> JsonObject:
    return {"role": role, "content": content, "metadata": metadata}


def asking(*calls: tuple[str, str, str], text: str = "", **metadata: Any) -> JsonObject:
    """An assistant message that asks for the calls `(id, name, arguments)`."""
    shapes = [
        {"id": id_, "type": "function", "function": {"name": n, "arguments": a}}
        for id_, n, a in calls
    ]
    return message("assistant", text or [], tool_calls=shapes, **metadata)


def answering(call_id: str, content: Any, **metadata: Any) -> JsonObject:
    return message("tool", content, tool_call_id=call_id, **metadata)
