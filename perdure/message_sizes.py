"""How large messages are: by the specification's estimate, and as Temporal records them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from json import dumps
from typing import Protocol

from pydantic_core import PydanticSerializationError, to_json

from .messages import Message

_RECORDED_FRAME = 64
"""Bytes that a recorded message or part takes besides its content."""

_MEMORY_FRAME = 4000
"""Bytes that a parsed message takes in addition to its text, with what was made of it for the provider."""


class Measured(Protocol):
    """A conversation that knows its size."""

    messages: list[Message]

    @property
    def recorded_bytes(self) -> int: ...


def conversation_bytes(conversation: Measured) -> int:
    """About how many bytes of memory the conversation takes in a worker's cache."""
    return 2 * conversation.recorded_bytes + _MEMORY_FRAME * len(conversation.messages)


def message_chars(message: Message) -> int:
    """The size of one message in characters, as §13.3 estimates it."""
    size = len(message.role) + 4
    for part in message.parts:
        size += len(part.value) if part.kind == "text" else 200
    if calls := message.metadata.get("tool_calls"):
        size += sum(_call_chars(call) for call in calls) + 2 * len(calls)
    return size


def _call_chars(call: dict[str, object]) -> int:
    """The length of a tool call's JSON as `json.dumps` writes it, without the punctuation of the list."""
    return len(dumps(call))


def recorded_bytes(message: Message) -> int:
    """About how many bytes the message takes when it is recorded, uncompressed. Never raises."""
    size = _RECORDED_FRAME
    for part in message.parts:
        size += _RECORDED_FRAME + _utf8_bytes(part.value if part.kind == "text" else part.source)
    return size + (_json_bytes(message.metadata) if message.metadata else 0)


def _json_bytes(value: object) -> int:
    try:
        return len(to_json(value, fallback=str))
    except PydanticSerializationError:
        # Text that is not valid Unicode: only `json` writes it.
        return len(dumps(value, default=str))


def _utf8_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def total_bytes(messages: Iterable[Message]) -> int:
    """About how many bytes the messages take when they are recorded, uncompressed."""
    return sum(map(recorded_bytes, messages))


def batches(messages: Sequence[Message], limit_bytes: int) -> list[list[Message]]:
    """The messages in batches of at most `limit_bytes` as recorded; a larger message is a batch of its own."""
    found: list[list[Message]] = []
    size = 0
    for message in messages:
        own = recorded_bytes(message)
        if not found or size + own > limit_bytes:
            found.append([])
            size = 0
        found[-1].append(message)
        size += own
    return found
