"""Reads a Responses request: its turns, its conversation, and what the real API would refuse in it."""

from __future__ import annotations

from typing import Any

from ...messages import Message, ToolCall
from .chat import text_of


def count_turns(body: dict[str, Any]) -> int:
    """Groups of items that the model wrote: reasoning, text and calls with no other item between are one turn."""
    by_model = [_is_by_model(item) for item in _items(body)]
    return sum(now and not before for before, now in zip([False, *by_model], by_model, strict=False))


def read_messages(body: dict[str, Any]) -> list[Message]:
    messages = [Message.system(body["instructions"])] if body.get("instructions") else []
    previous_is_by_model = False
    for item in _items(body):
        if _is_by_model(item) and not previous_is_by_model:
            messages.append(Message.assistant())
        previous_is_by_model = _is_by_model(item)
        _read_item(item, messages)
    return messages


def find_fault(body: dict[str, Any]) -> str | None:
    """Why the real API would answer 400, or None: every function call needs its output, every output its call."""
    unanswered: list[str] = []
    for item in _items(body):
        if item.get("type") == "function_call":
            unanswered.append(item["call_id"])
        elif item.get("type") == "function_call_output":
            if item["call_id"] not in unanswered:
                return f"No tool call found for function call output with call_id {item['call_id']}."
            unanswered.remove(item["call_id"])
    return f"No tool output found for function call {unanswered[0]}." if unanswered else None


def _items(body: dict[str, Any]) -> list[dict[str, Any]]:
    given = body.get("input", [])
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


def _is_by_model(item: dict[str, Any]) -> bool:
    return item.get("type") in ("function_call", "reasoning") or item.get("role") == "assistant"


def _read_item(item: dict[str, Any], messages: list[Message]) -> None:
    kind = item.get("type", "message")
    if kind == "message" and item["role"] == "assistant":
        messages[-1] = Message.assistant(messages[-1].text + text_of(item.get("content")), messages[-1].tool_calls)
    elif kind == "message":
        messages.append(Message(role=item["role"], parts=text_of(item.get("content"))))
    elif kind == "function_call":
        call = ToolCall(id=item["call_id"], name=item["name"], arguments=item["arguments"])
        messages[-1] = Message.assistant(messages[-1].text, [*messages[-1].tool_calls, call])
    elif kind == "function_call_output":
        text = text_of(item["output"])
        messages.append(Message(role="tool", parts=text, metadata={"tool_call_id": item["call_id"]}))
