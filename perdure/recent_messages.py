"""The last messages of a conversation as plain text, for another agent that is to go on from there. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from .arguments import parse_with_repair
from .child_agents import DELEGATE, TASK
from .errors import ToolArgumentError
from .excerpt import cut_middle, utf8
from .messages import Message, TextPart, ToolCall

MAX_MESSAGE_BYTES = 8 * 1024
MAX_BYTES = 64 * 1024
"""Of all of them: what does not fit is left out, the oldest first."""


def recent_messages(messages: Sequence[Message], count: int) -> list[Message]:
    """The last `count` messages that are no instructions, as messages of a user and an assistant with text alone.

    Tool calls and their results are told in words; of media there is only their kind.
    """
    found: list[Message] = []
    left = MAX_BYTES
    for message in reversed(messages):
        if len(found) == count:
            break
        if message.instructs:
            continue
        text = cut_middle("\n".join(filter(None, _texts(message))), MAX_MESSAGE_BYTES)
        left -= len(utf8(text))
        if left < 0:
            break
        found.append(Message.assistant(text) if message.role == "assistant" else Message.user(text))
    return found[::-1]


def _texts(message: Message) -> Iterator[str]:
    if message.role == "tool":
        yield "Tool result:"
    for part in message.parts:
        yield part.value if isinstance(part, TextPart) else f"[{part.kind}]"
    yield from (_action(call) for call in message.tool_calls)


def _action(call: ToolCall) -> str:
    """The call as a model writes it that knows no tools."""
    try:
        arguments: object = parse_with_repair(call.arguments)[0]
    except ToolArgumentError:
        arguments = call.arguments
    if call.name.startswith(DELEGATE) and isinstance(arguments, dict) and isinstance(arguments.get(TASK), str):
        return _json({"agent": call.name.removeprefix(DELEGATE), "task": arguments[TASK]})
    return _json({"tool": call.name, "arguments": arguments})


def _json(action: dict[str, object]) -> str:
    return json.dumps(action, ensure_ascii=False)
