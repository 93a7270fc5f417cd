"""What was said in a run, in the form of the GenAI conventions, without secrets; only for who asks for it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..agent import Agent
from ..json_types import JsonObject
from ..messages import Message, TextPart, ToolResult
from ..redaction import REDACTED, is_secret_name, redact

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The environment variable of the GenAI conventions that asks for content."""
_ON = ("true", "1", "yes", "span_only", "span_and_event")


def captures_content() -> bool:
    """Whether the environment asks for messages, arguments and results in spans; off by default."""
    return os.environ.get(CAPTURE, "").strip().lower() in _ON


def as_json(value: Any, agent: Agent | None = None) -> str:
    """The value as JSON, without anything in it that is a secret or looks like one."""
    return json.dumps(_redacted(value, agent), ensure_ascii=False)


def conversation(messages: Sequence[Message], agent: Agent) -> dict[str, str]:
    """The attributes for what a model is sent."""
    first = 0
    while first < len(messages) and messages[first].instructs:
        first += 1
    instructions = [{"type": "text", "content": message.text} for message in messages[:first]]
    said = {"gen_ai.input.messages": as_json(list(map(_message, messages[first:])), agent)}
    return {"gen_ai.system_instructions": as_json(instructions, agent), **said} if instructions else said


def reply(message: Message, finish_reason: str | None, agent: Agent) -> dict[str, str]:
    """The attribute for what a model answers."""
    said = {**_message(message), "finish_reason": finish_reason or ""}
    return {"gen_ai.output.messages": as_json([said], agent)}


def arguments(given: Mapping[str, Any], agent: Agent) -> dict[str, str]:
    """The attribute for what a tool is called with."""
    return {"gen_ai.tool.call.arguments": as_json(dict(given), agent)}


def result(given: ToolResult | str, agent: Agent) -> dict[str, str]:
    """The attribute for what a tool returns."""
    return {"gen_ai.tool.call.result": redact(given if isinstance(given, str) else given.text, agent)}


def _message(message: Message) -> JsonObject:
    if message.role == "tool":
        answer = {"type": "tool_call_response", "id": message.metadata.get("tool_call_id"), "response": message.text}
        return {"role": "tool", "parts": [answer]}
    calls = [
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": _arguments(call.arguments)}
        for call in message.tool_calls
    ]
    return {"role": message.role, "parts": [*_parts(message.parts), *calls]}


def _parts(parts: Iterable[Any]) -> list[JsonObject]:
    """Texts as they are; of media only what they are: the data belongs into no span."""
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


def _redacted(value: Any, agent: Agent | None) -> Any:
    if isinstance(value, str):
        return redact(value, agent)
    if isinstance(value, Mapping):
        return {redact(str(key), agent): _under(str(key), child, agent) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [_redacted(child, agent) for child in value]
    return value


def _under(name: str, value: Any, agent: Agent | None) -> Any:
    """The value under that name: a text under the name of a secret is one, whatever it looks like."""
    return REDACTED if isinstance(value, str) and is_secret_name(name) else _redacted(value, agent)
