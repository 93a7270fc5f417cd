"""What was said in a conversation, for who comes back to it: its last part, long messages folded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...excerpt import counted, one_line
from ..call_text import short_call

if TYPE_CHECKING:
    from ...messages import Message

_EXCHANGES = 2
"""How many of what a person has said are shown, with what followed."""
_LINES = 12
"""Of one message."""


class Said(NamedTuple):
    """A paragraph, and how it is shown."""

    text: str
    style: str = ""


def last_part(messages: Sequence[Message]) -> Iterator[Said]:
    """The end of the conversation, and a line about what is before it."""
    shown = [message for message in messages if message.role != "system"]
    asked = [place for place, message in enumerate(shown) if message.role == "user"]
    start = asked[-_EXCHANGES] if len(asked) > _EXCHANGES else 0
    if start:
        yield Said(f"    … {counted(start, 'earlier message')}: /messages shows them", "dim")
    yield from whole(shown[start:], _LINES)


def whole(messages: Sequence[Message], lines: int | None = None) -> Iterator[Said]:
    """All of it, instructions aside; of each message so many lines, None for all."""
    for message in messages:
        if message.role != "system":
            yield from _said(message, lines)


def typed(message: Message) -> str:
    """What a person has said, as a terminal shows it."""
    first, *others = message.text.split("\n")
    return "\n".join([f"> {first}", *(f"  {other}" for other in others)])


def _said(message: Message, lines: int | None) -> Iterator[Said]:
    if message.role == "user":
        yield Said(_folded(typed(message), lines), "bold")
    elif message.role == "tool":
        yield Said(f"      → {one_line(message.text, 300)}", "dim")
    elif message.text.strip():
        yield Said(_folded(message.text, lines))
    for call in message.tool_calls:
        yield Said(f"    ✓ {short_call(call.name, call.arguments)}", "dim")
    for part in message.parts:
        if part.kind != "text":
            yield Said(f"    [{part.kind}]", "dim")


def _folded(text: str, lines: int | None) -> str:
    all_lines = text.strip("\n").split("\n")
    if lines is None or len(all_lines) <= lines:
        return "\n".join(all_lines)
    return "\n".join([*all_lines[: lines - 1], f"    … {counted(len(all_lines) - lines + 1, 'more line')}"])
