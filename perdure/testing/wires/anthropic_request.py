"""Reads an Anthropic Messages request: its turns, its conversation, and what the real API would refuse in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ...messages import Message, ToolCall
from .chat import text_of

Block = dict[str, Any]


def count_turns(body: dict[str, Any]) -> int:
    return sum(message.get("role") == "assistant" for message in body.get("messages", []))


def read_messages(body: dict[str, Any]) -> list[Message]:
    messages = [Message.system(text_of(body["system"]))] if body.get("system") else []
    for wire in body.get("messages", []):
        messages.extend(_assistant(wire) if wire["role"] == "assistant" else _user(wire))
    return messages


def _assistant(wire: dict[str, Any]) -> Iterator[Message]:
    calls = [
        ToolCall(id=block["id"], name=block["name"], arguments=_arguments(block["input"]))
        for block in _blocks(wire, "tool_use")
    ]
    yield Message.assistant("".join(block["text"] for block in _blocks(wire, "text")), calls)


def _user(wire: dict[str, Any]) -> Iterator[Message]:
    for block in _blocks(wire, "tool_result"):
        metadata = {"tool_call_id": block["tool_use_id"]}
        yield Message(role="tool", parts=text_of(block.get("content")), metadata=metadata)
    if texts := _blocks(wire, "text"):
        yield Message.user("".join(block["text"] for block in texts))


def _arguments(given: Any) -> str:
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, separators=(",", ":"))


def _blocks(wire: dict[str, Any], kind: str) -> list[Block]:
    content = wire.get("content") or []
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [block for block in blocks if block.get("type") == kind]


def find_fault(body: dict[str, Any]) -> str | None:
    """Why the real API would answer 400, or None: calls and results pair up, and no text block is empty."""
    asked: list[str] = []
    for index, message in enumerate(body.get("messages", [])):
        if any(block["text"] == "" for block in _blocks(message, "text")):
            return f"messages.{index}: text content blocks must be non-empty"
        answered = [block["tool_use_id"] for block in _blocks(message, "tool_result")]
        if stray := [given for given in answered if given not in asked]:
            return (
                f"messages.{index}: unexpected `tool_use_id` found in `tool_result` blocks: {', '.join(stray)}. "
                "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
        if missing := [given for given in asked if given not in answered]:
            return _unanswered(index - 1, missing)
        asked = [block["id"] for block in _blocks(message, "tool_use")]
    return _unanswered(len(body.get("messages", [])) - 1, asked) if asked else None


def _unanswered(index: int, missing: list[str]) -> str:
    return (
        f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the next "
        "message."
    )
