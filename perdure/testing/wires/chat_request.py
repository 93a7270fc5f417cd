"""Reads a Chat Completions request: its turns, its conversation, and what the real API would refuse in it."""

from __future__ import annotations

from typing import Any

from ...messages import Message


def count_turns(body: dict[str, Any]) -> int:
    return sum(message.get("role") == "assistant" for message in body.get("messages", []))


def read_messages(body: dict[str, Any]) -> list[Message]:
    return [_message(message) for message in body.get("messages", [])]


def _message(wire: dict[str, Any]) -> Message:
    metadata = {key: wire[key] for key in ("tool_calls", "tool_call_id") if wire.get(key)}
    return Message(role=wire["role"], parts=text_of(wire.get("content")), metadata=metadata)


def text_of(content: Any) -> str:
    """The text of a message's content, whether a string or parts."""
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


def find_fault(body: dict[str, Any]) -> str | None:
    """Why the real API would answer 400, or None: every tool call needs its answer, every answer its call."""
    unanswered: list[str] = []
    for index, message in enumerate(body.get("messages", [])):
        if message.get("role") == "tool":
            if message.get("tool_call_id") not in unanswered:
                return (
                    f"Invalid parameter: messages[{index}] with role 'tool' must be a response to a preceding "
                    "message with 'tool_calls'."
                )
            unanswered.remove(message["tool_call_id"])
            continue
        if unanswered:
            break
        unanswered = [call["id"] for call in message.get("tool_calls") or []]
    if not unanswered:
        return None
    return (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"The following tool_call_ids did not have response messages: {', '.join(unanswered)}"
    )
