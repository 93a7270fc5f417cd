"""Whether a provider accepts a conversation."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.json_types import JsonView
from perdure.messages import Message


def fault_in(messages: Sequence[JsonView]) -> str | None:
    """Return what OpenAI's chat API refuses in these messages; None if it accepts them.

    Each call has exactly one result, directly after the message that makes it; the last message is
    not the model's own.
    """
    open_: list[str] = []
    seen: set[str] = set()
    for place, message in enumerate(messages):
        role = message["role"]
        if role == "tool":
            id = message.get("tool_call_id")
            if id not in open_:
                return f"message {place} answers {id!r}, open are {open_}"
            open_.remove(str(id))
            continue
        if open_:
            return f"message {place} ({role}) comes before the results of {open_}"
        if role == "assistant":
            open_ = [call["id"] for call in message.get("tool_calls") or ()]
            if repeated := seen.intersection(open_):
                return f"message {place} uses the ids {repeated} again"
            seen.update(open_)
    if open_:
        return f"{open_} have no result"
    if messages[-1]["role"] == "assistant":
        return "the last message is the model's own"
    return None


def fault_in_messages(messages: Sequence[Message]) -> str | None:
    """Return what makes the conversation of a run that has ended impossible to continue."""
    written = [
        {
            "role": message.role,
            "tool_calls": message.metadata.get("tool_calls"),
            "tool_call_id": message.metadata.get("tool_call_id"),
        }
        for message in messages
    ]
    return fault_in([*written, {"role": "user"}])
