"""A provider that sends what it likes, byte for byte, and agents that ask it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from perdure.agents import Agent
from perdure.json_types import JsonObject

from .agents import declared
from .recorded_server import Recorded, RecordedServer

APIS = {
    "chat": ("openai", "chat"),
    "responses": ("openai", "responses"),
    "anthropic": ("anthropic", "chat"),
}
"""The wire formats, by the names that tests show: provider and API type."""


def asking(
    server: RecordedServer, api: str = "chat", tools: Iterable[str] = (), **fields: Any
) -> Agent:
    """An agent whose model is the server."""
    provider, api_type = APIS[api]
    connection = {"kind": "anonymous", "endpoint": server.url}
    model = {"id": "wild", "provider": provider, "apiType": api_type, "connection": connection}
    return Agent.model_validate(
        {"name": "tested", "model": model, "tools": [*map(declared, tools)], **fields}
    )


def answer(api: str, text: str) -> JsonObject:
    """A whole answer with a text."""
    match api:
        case "chat":
            message = {"role": "assistant", "content": text}
            return {
                "id": "c",
                "model": "wild",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            }
        case "responses":
            item = {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": text}],
            }
            return {"id": "r", "model": "wild", "status": "completed", "output": [item]}
    return {"id": "a", "content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}


def events(api: str, texts: Iterable[Any], *, thinking: Iterable[Any] = ()) -> list[JsonObject]:
    """The events of a stream that says the texts, piece by piece."""
    match api:
        case "chat":
            deltas = [{"reasoning_content": piece} for piece in thinking] + [
                {"content": piece} for piece in texts
            ]
            choices = [{"index": 0, "delta": delta} for delta in deltas]
            return [
                {"id": "c", "choices": [each]}
                for each in [*choices, {"delta": {}, "finish_reason": "stop"}]
            ]
        case "responses":
            end = {
                "type": "response.completed",
                "response": {"id": "r", "status": "completed", "output": []},
            }
            thoughts = [
                {"type": "response.reasoning_summary_text.delta", "delta": piece}
                for piece in thinking
            ]
            return [
                *thoughts,
                *({"type": "response.output_text.delta", "delta": piece} for piece in texts),
                end,
            ]
    start = {
        "type": "message_start",
        "message": {"id": "a", "content": [], "usage": {"input_tokens": 1}},
    }
    blocks = [_block(0, "thinking", thinking), _block(1, "text", texts)]
    stop = {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {"output_tokens": 1},
    }
    return [start, *blocks[0], *blocks[1], stop, {"type": "message_stop"}]


def _block(index: int, kind: str, pieces: Iterable[Any]) -> list[JsonObject]:
    opened = {
        "type": "content_block_start",
        "index": index,
        "content_block": {"type": kind, kind: ""},
    }
    deltas = [{"type": f"{kind}_delta", kind: piece} for piece in pieces]
    return [
        opened,
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
    ]


def stream(events: Iterable[JsonObject], **more: Any) -> Recorded:
    """The events as they are sent."""
    return Recorded.of_stream(
        b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events), **more
    )
