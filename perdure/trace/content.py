"""The content of a run (messages, arguments, results) in the form of the GenAI conventions, without
secrets; opt-in.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..json_types import JsonObject, JsonView
from ..messages import Message, TextPart, ToolResult
from ..redaction import REDACTED, is_secret_name

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The environment variable of the GenAI conventions that turns content on."""
_ON = ("true", "1", "yes", "span_only", "span_and_event")

Clean = Callable[[str], str]
"""Removes secrets, and text that looks like one."""


def captures_content() -> bool:
    """Return whether the environment wants messages, arguments and results in spans; off by
    default.
    """
    return os.environ.get(CAPTURE, "").strip().lower() in _ON


def as_json(value: Any, clean: Clean) -> str:
    """Return the value as JSON, with its strings cleaned."""
    return json.dumps(without_secrets(value, clean), ensure_ascii=False)


def conversation(messages: Sequence[Message], clean: Clean) -> dict[str, str]:
    """Return the attributes for a model's input."""
    first = 0
    while first < len(messages) and messages[first].instructs:
        first += 1
    instructions = [{"type": "text", "content": message.text} for message in messages[:first]]
    said = {"gen_ai.input.messages": as_json(list(map(_message, messages[first:])), clean)}
    return (
        {"gen_ai.system_instructions": as_json(instructions, clean), **said}
        if instructions
        else said
    )


def asked(messages: Sequence[Message], inputs: JsonObject, clean: Clean) -> dict[str, str]:
    """Return the attribute for a run's request: a person's last message, else the inputs; empty
    without either.
    """
    said = [each for each in messages if each.role == "user"][-1:]
    if inputs and not said:
        said = [Message.user(as_json(inputs, clean))]
    return {"gen_ai.input.messages": as_json(list(map(_message, said)), clean)} if said else {}


def reply(message: Message, finish_reason: str | None, clean: Clean) -> dict[str, str]:
    """Return the attribute for a model's answer."""
    said = {**_message(message), "finish_reason": finish_reason or ""}
    return {"gen_ai.output.messages": as_json([said], clean)}


def arguments(given: JsonView, clean: Clean) -> dict[str, str]:
    """Return the attribute for a tool's arguments."""
    return {"gen_ai.tool.call.arguments": as_json(dict(given), clean)}


def result(given: ToolResult | str, clean: Clean) -> dict[str, str]:
    """Return the attribute for a tool's result."""
    return {"gen_ai.tool.call.result": clean(given if isinstance(given, str) else given.text)}


def _message(message: Message) -> JsonObject:
    if message.role == "tool":
        answer = {
            "type": "tool_call_response",
            "id": message.metadata.get("tool_call_id"),
            "response": message.text,
        }
        return {"role": "tool", "parts": [answer]}
    calls = [
        {
            "type": "tool_call",
            "id": call.id,
            "name": call.name,
            "arguments": _arguments(call.arguments),
        }
        for call in message.tool_calls
    ]
    return {"role": message.role, "parts": [*_parts(message.parts), *calls]}


def _parts(parts: Iterable[Any]) -> list[JsonObject]:
    """Return texts unchanged, and only the kind of media: data does not belong in a span."""
    return [
        {"type": "text", "content": part.value}
        if isinstance(part, TextPart)
        else {
            "type": "uri" if "://" in part.source[:20] else "blob",
            "modality": part.kind,
            "mime_type": part.media_type,
        }
        for part in parts
    ]


def _arguments(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def without_secrets(value: Any, clean: Clean) -> Any:
    """Return the JSON value with its strings cleaned, and without texts under names of secrets."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(str(key)): _under(str(key), child, clean) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [without_secrets(child, clean) for child in value]
    return value


def _under(name: str, value: Any, clean: Clean) -> Any:
    """Redact the value of that name: texts under the name of a secret are always secret."""
    if name == "arguments" and isinstance(value, str):
        given = _arguments(value)
        return clean(value) if isinstance(given, str) else as_json(given, clean)
    if is_secret_name(name) and isinstance(value, list):
        return [_under(name, each, clean) for each in value]
    if is_secret_name(name) and isinstance(value, str):
        return REDACTED
    return without_secrets(value, clean)
