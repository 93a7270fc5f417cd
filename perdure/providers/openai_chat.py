"""OpenAI Chat Completions: to the wire, from the wire, and its streams (§7.1, §8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..agent import Agent
from ..messages import AudioPart, FilePart, ImagePart, Message, Part, TextPart, ToolCall, Usage
from ..schema import STRICT, object_schema
from .base import StreamAssembler
from .calls import arguments_text, call_id, content_text, only_text, wire_name
from .chat_stream import ChatStream
from .functions import FunctionDefinition, offered_functions
from .media import as_url, input_audio
from .memo import RememberedList
from .model_options import add_additional, add_options, model_id
from .openai_sdk import openai_sdk
from .wire_format import Answer, WireFormat

_OPTIONS = {
    "temperature": "temperature",
    "max_output_tokens": "max_completion_tokens",
    "top_p": "top_p",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "stop_sequences": "stop",
    "seed": "seed",
    "allow_multiple_tool_calls": "parallel_tool_calls",
}
_INTERNAL_METADATA = frozenset({"provider_content", "status"})
_CUT_SHORT = frozenset({"length", "content_filter"})


class OpenAIChat(WireFormat):
    """`apiType: chat` of OpenAI, and of everything that speaks its protocol."""

    api = "chat"
    path = "/chat/completions"

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.sdk = openai_sdk(key)

    def to_request(
        self,
        agent: Agent,
        messages: Sequence[Message],
        *,
        extra_tools: Sequence[Mapping[str, Any]] = (),
        may_call_tools: bool = True,
        lasting: bool = False,
    ) -> dict[str, Any]:
        made = _remembered(messages) if lasting else list(map(_message, messages))
        request: dict[str, Any] = {"model": model_id(agent), "messages": made}
        add_options(request, agent, _OPTIONS)
        functions = offered_functions(agent, extra_tools, lasting=lasting) if may_call_tools else []
        if functions:
            request["tools"] = [_tool(definition) for definition in functions]
        if agent.outputs:
            schema = object_schema(agent.outputs, STRICT)
            json_schema = {"name": "structured_output", "strict": True, "schema": schema}
            request["response_format"] = {"type": "json_schema", "json_schema": json_schema}
        add_additional(request, agent)
        return request

    def streaming(self, request: Mapping[str, Any]) -> dict[str, Any]:
        asked = request.get("stream_options") or {}
        return {**request, "stream": True, "stream_options": {**asked, "include_usage": True}}

    def read(self, response: Mapping[str, Any]) -> Answer:
        choice = response["choices"][0]
        message = choice["message"]
        calls = [
            ToolCall(
                id=call_id(call.get("id"), index, response.get("id")),
                name=call["function"]["name"],
                arguments=arguments_text(call["function"].get("arguments")),
            )
            for index, call in enumerate(message.get("tool_calls") or [])
        ]
        content = message.get("content")
        finish_reason = choice.get("finish_reason")
        return Answer(
            text=content_text((message.get("refusal") or "") if content is None else content),
            tool_calls=calls,
            usage=_usage(response.get("usage") or {}),
            finish_reason=finish_reason,
            cut_short=finish_reason in _CUT_SHORT,
        )

    def assembler(self) -> StreamAssembler:
        return ChatStream(self.key)


def _message(message: Message) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": message.role}
    if message.metadata:
        wire.update((key, value) for key, value in message.metadata.items() if key not in _INTERNAL_METADATA)
        wire["role"] = message.role
        if calls := wire.pop("tool_calls", None):
            wire["tool_calls"] = [_call(call) for call in calls]
    wire["content"] = _content(message)
    return wire


_remembered = RememberedList(_message)


def _content(message: Message) -> str | list[dict[str, Any]]:
    """One text is a plain string, and so are all texts of a tool's result (§7.1, §9.5)."""
    parts = message.parts
    if len(parts) == 1 and isinstance(parts[0], TextPart):
        return parts[0].value
    text = only_text(parts) if message.role == "tool" or not parts else None
    return [_part(part) for part in parts] if text is None else text


def _part(part: Part) -> dict[str, Any]:
    match part:
        case TextPart():
            return {"type": "text", "text": part.value}
        case ImagePart():
            detail = {"detail": part.detail} if part.detail else {}
            return {"type": "image_url", "image_url": {"url": as_url(part), **detail}}
        case AudioPart():
            return {"type": "input_audio", "input_audio": input_audio(part)}
        case FilePart():
            return {"type": "file", "file": {"url": as_url(part)}}


def _call(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {**call, "function": {**function, "name": wire_name(function["name"])}}


def _tool(definition: FunctionDefinition) -> dict[str, Any]:
    function: dict[str, Any] = {"name": definition.name}
    if definition.description:
        function["description"] = definition.description
    function["parameters"] = definition.parameters
    if definition.strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def _usage(usage: Mapping[str, Any]) -> Usage:
    return Usage(
        input_tokens=usage.get("prompt_tokens") or 0,
        output_tokens=usage.get("completion_tokens") or 0,
        total_tokens=usage.get("total_tokens") or 0,
        cached_input_tokens=(usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0,
        reasoning_tokens=(usage.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0,
    )
