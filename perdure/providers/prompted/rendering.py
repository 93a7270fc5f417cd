"""Tool calls and their results as a model sees them that knows none: as its own text, and as the user's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...child_agents import DELEGATE, TASK
from ...messages import Message, Part, TextPart, ToolCall
from ..calls import arguments_object
from .actions import INVALID

API = "perdure.json"
"""Marks a message whose `provider_content` holds what the model wrote, and the step in which it did."""

TOLD = "[Delegation failed"
"""How the text begins in which a delegation says itself that it has failed."""


class _Call(NamedTuple):
    name: str
    step: int
    is_one_of_several: bool


def as_text(messages: Sequence[Message], max_steps: int) -> list[Message]:
    """The conversation without tool messages: each result is a user's message, each call a part of the model's text."""
    return list(_as_text(messages, max_steps))


def _as_text(messages: Sequence[Message], max_steps: int) -> Iterator[Message]:
    calls: dict[str, _Call] = {}
    results: list[Part] = []
    steps = 0
    for message in messages:
        if message.role == "tool":
            call = calls.get(message.metadata.get("tool_call_id", ""), _Call("", max(steps, 1), True))
            results += [TextPart(value="\n")] if results else []
            results += _result(message, call, max_steps)
            continue
        if results:
            yield Message(role="user", parts=_joined(results))
            results = []
        if message.role == "assistant" and (asked := message.tool_calls):
            steps = _step(message) or steps + 1
            calls = {call.id: _Call(call.name, steps, len(asked) > 1) for call in asked}
            yield Message.assistant(_written(message, asked))
        else:
            yield message
    if results:
        yield Message(role="user", parts=_joined(results))


def _result(message: Message, call: _Call, max_steps: int) -> list[Part]:
    media = [part for part in message.parts if not isinstance(part, TextPart)]
    is_agent, is_failure = call.name.startswith(DELEGATE), "status" in message.metadata
    if is_failure and message.text.startswith(INVALID):
        said = message.text
    elif is_agent:
        is_told = not is_failure or message.text.startswith(TOLD)
        said = f"{'Agent response' if is_told else 'Delegation failed'}: {message.text}"
    elif is_failure:
        said = f"Tool execution failed: {message.text}"
    else:
        said = f"Tool result: {_as_json(message.text)}"
    of = f" {call.name.removeprefix(DELEGATE)}:" if call.is_one_of_several and call.name else ""
    return [TextPart(value=f"[Step {min(call.step, max_steps)}/{max_steps}]{of} {said}"), *media]


def _as_json(text: str) -> str:
    """The result as JSON, which it is already if the tool gave anything but a text."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return json.dumps(text, ensure_ascii=False)
    return text


def _joined(parts: Sequence[Part]) -> list[Part]:
    """With neighbouring texts as one, so that a message of texts alone has one part."""
    joined: list[Part] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, TextPart) and isinstance(last, TextPart):
            joined[-1] = TextPart(value=last.value + part.value)
        else:
            joined.append(part)
    return joined


def written_of(message: Message) -> str | None:
    """What the model wrote where tool calls were read in its text; None where that is not known. Never raises."""
    kept = _kept(message)
    return str(kept["content"][0]) if kept and kept.get("content") else None


def _written(message: Message, calls: Sequence[ToolCall]) -> str:
    """What the model wrote; for a call that it made in another way, the text that it would have written."""
    if (written := written_of(message)) is not None:
        return written
    return "\n".join(filter(None, [message.text, *map(_action, calls)]))


def _action(call: ToolCall) -> str:
    if call.fault:
        return call.arguments
    arguments = arguments_object(call.arguments)
    task = arguments.get(TASK)
    if call.name.startswith(DELEGATE) and isinstance(task, str):
        return json.dumps({"agent": call.name.removeprefix(DELEGATE), "task": task}, ensure_ascii=False)
    return json.dumps({"tool": call.name, "arguments": arguments}, ensure_ascii=False)


def _step(message: Message) -> int:
    kept = _kept(message)
    return int(kept.get("step") or 0) if kept else 0


def _kept(message: Message) -> Mapping[str, Any] | None:
    content = message.metadata.get("provider_content")
    return content if content and content.get("api") == API else None
