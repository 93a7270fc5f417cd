"""OpenAI Responses: its requests, responses and streams (§7.4, §8).

https://platform.openai.com/docs/api-reference/responses
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..agents import Agent
from ..declared_tools import Property
from ..json_types import JsonObject, JsonView
from ..messages import AudioPart, FilePart, ImagePart, Message, Part, ProviderCall, TextPart
from .base import (
    BLOCK_SIZE,
    Delta,
    FunctionDefinition,
    StreamAssembler,
    provider_call,
    weight,
)
from .ends import NO_END, Answer
from .errors import error_from_http
from .memo import Memo
from .openai import OpenAIFormat, audio_item, file_data, function_fields, schema_fields
from .outgoing import private_content, same_calls
from .tool_call_text import (
    AcceptedMedia,
    Call,
    as_url,
    base64_data,
    calls_of,
    only_text,
    read_calls,
    sendable_parts,
)
from .wire_format import INSTRUCTION_ROLES, instructions_of, read_usage

_ENCRYPTED = "reasoning.encrypted_content"
_USAGE = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "total_tokens": "total_tokens",
    "cached_input_tokens": "input_tokens_details.cached_tokens",
    "reasoning_tokens": "output_tokens_details.reasoning_tokens",
    "cache_write_tokens": "input_tokens_details.cache_write_tokens",
}
_TEXT_TYPES = {"output_text": "text", "refusal": "refusal"}


class OpenAIResponses(OpenAIFormat):
    """`apiType: responses` of OpenAI."""

    api = "responses"
    expected = "a response with a list `output`"
    path = "/responses"
    title = "OpenAI Responses"
    media = {
        "image": AcceptedMedia(url=True),
        "audio": AcceptedMedia(url=False),
        "file": AcceptedMedia(url=True),
    }
    options = {
        "temperature": "temperature",
        "top_p": "top_p",
        "max_output_tokens": "max_output_tokens",
    }
    merged = frozenset({"text"})
    needs_message = True

    def to_request(self, agent: Agent, messages: Sequence[Message], **more: Any) -> JsonObject:
        request = super().to_request(agent, messages, **more)
        request.pop("background", None)  # The call waits for the whole response.
        return request

    def conversation(self, messages: Sequence[Message]) -> JsonObject:
        request: JsonObject = {"input": _items(messages)}
        if instructions := instructions_of(messages):
            request["instructions"] = instructions
        return request

    def tool(self, definition: FunctionDefinition) -> JsonObject:
        return {"type": "function", **function_fields(definition)}

    def for_call(self, agent: Agent, request: JsonObject) -> JsonObject:
        """Mark the tools that are not strict, which the API assumes otherwise; request the fields
        that `store: false` needs.
        """
        request = {**request}
        if "tools" in request:
            is_function = {"type": "function"}.items()
            request["tools"] = [
                {"strict": False, **tool} if is_function <= tool.items() else tool
                for tool in request["tools"]
            ]
        if request.get("store") is False and "input" in request:
            include = request.get("include") or []
            request["include"] = [*include, *({_ENCRYPTED} - {*include})]
            request["input"] = [item for item in request["input"] if not _is_kept_by_server(item)]
        return request

    def output_format(self, outputs: Sequence[Property]) -> JsonObject:
        return {"text": {"format": {"type": "json_schema", **schema_fields(outputs)}}}

    def read(self, response: JsonView) -> Answer:
        """Read a response; raises ValueError with the provider's text if it reports an error
        (§8).
        """
        if error := response.get("error"):
            raise ValueError(error.get("message") or str(error))
        items = response["output"]
        text, calls = _text_and_calls(items, response.get("id"))
        incomplete = response.get("incomplete_details") or {}
        given = response.get("output_text")
        asked = [
            item.get("status", "completed") for item in items if item["type"] == "function_call"
        ]
        return Answer(
            text=given if isinstance(given, str) and given else text,
            calls=calls,
            usage=read_usage(response.get("usage"), _USAGE),
            finish_reason=incomplete.get("reason") or response.get("status"),
            refusal=_message_text(items, {"refusal": "refusal"}),
            by_default="cut_short" if "incomplete" in (response.get("status"), *asked) else "whole",
            open_calls=[index for index, status in enumerate(asked) if status != "completed"],
            provider_calls=[_provider_call(item) for item in items if _is_providers(item["type"])],
            original=list(items) if any(item["type"] != "message" for item in items) else None,
        )

    def assembler(self) -> StreamAssembler:
        return ResponsesStream(self.key)


def _items_of(message: Message) -> Iterator[JsonObject]:
    """Yield the input items of one message; an assistant's original items are sent back unchanged,
    with reasoning.
    """
    if message.role in INSTRUCTION_ROLES:
        return
    if message.role == "tool":
        parts = sendable_parts(message, OpenAIResponses.media, OpenAIResponses.title)
        output = only_text(parts)
        content = [_part(part) for part in parts] if output is None else output
        yield {
            "type": "function_call_output",
            "call_id": message.metadata.get("tool_call_id"),
            "output": content,
        }
    elif message.role == "assistant":
        original = private_content(message, "responses")
        yield from _rebuilt(message) if original is None else _original_items(message, original)
    else:
        parts = sendable_parts(message, OpenAIResponses.media, OpenAIResponses.title)
        yield {"role": message.role, "content": _content(parts)}


_items = Memo[Message, JsonObject](lambda message: list(_items_of(message)))


def _original_items(message: Message, original: list[JsonObject]) -> Iterator[JsonObject]:
    """Return the original items, unless the text or the calls have changed since.

    The API requires the result of each reasoning item directly after it: a last one without a
    result is left out.
    """
    text, calls = _text_and_calls(original, None)
    asked = calls_of(message)
    has_same_calls = same_calls(calls, asked)
    if has_same_calls and text == message.text:
        yield from _acceptable(original, asked)
    elif has_same_calls and calls:
        yield from _text_item(message)
        yield from _acceptable([item for item in original if item["type"] != "message"], asked)
    else:
        yield from _rebuilt(message)


def _acceptable(items: Sequence[JsonObject], calls: Sequence[Call]) -> Iterator[JsonObject]:
    end = len(items)
    while end and items[end - 1]["type"] == "reasoning":
        end -= 1
    asked = iter(calls)
    for item in items[:end]:
        yield item | _call_fields(next(asked)) if item["type"] == "function_call" else item


def _is_kept_by_server(item: JsonObject) -> bool:
    return item.get("type") == "reasoning" and not item.get("encrypted_content")


def _call_fields(call: Call) -> dict[str, str]:
    return {"call_id": call.id, "name": call.name, "arguments": call.arguments}


def _rebuilt(message: Message) -> Iterator[JsonObject]:
    yield from _text_item(message)
    for call in calls_of(message):
        yield {"type": "function_call", **_call_fields(call)}


def _text_item(message: Message) -> Iterator[JsonObject]:
    if text := message.text:
        yield {"role": "assistant", "content": text}


def _content(parts: list[Part]) -> str | list[JsonObject]:
    text = only_text(parts) if len(parts) < 2 else None
    return [_part(part) for part in parts] if text is None else text


def _part(part: Part) -> JsonObject:
    match part:
        case TextPart():
            return {"type": "input_text", "text": part.value}
        case ImagePart():
            detail = {"detail": part.detail} if part.detail else {}
            return {"type": "input_image", "image_url": as_url(part), **detail}
        case AudioPart():
            return audio_item(part)
        case FilePart():
            return {
                "type": "input_file",
                **(file_data(part) if base64_data(part) else {"file_url": part.source}),
            }


def _text_and_calls(items: Sequence[JsonView], response_id: Any) -> tuple[str, list[Call]]:
    """Return the text or refusal in all message items, and the function calls."""
    calls = [item for item in items if item["type"] == "function_call"]
    asked = [(call.get("call_id"), call.get("name"), call.get("arguments")) for call in calls]
    return _message_text(items, _TEXT_TYPES), read_calls(asked, response_id)


def _message_text(items: Sequence[JsonView], keys: Mapping[str, str]) -> str:
    """Return the text in all message items; `keys` maps the type of a part to the key of its
    text.
    """
    parts = [
        part for item in items if item["type"] == "message" for part in item.get("content") or []
    ]
    return "".join(part[keys[part["type"]]] for part in parts if part["type"] in keys)


def _is_providers(type: str) -> bool:
    return type.endswith("_call") and type not in ("function_call", "custom_tool_call")


def _provider_call(item: JsonView) -> ProviderCall:
    """`web_search_call`, `file_search_call`, `code_interpreter_call`, `mcp_call` and so on."""
    details = {key: value for key, value in item.items() if key not in ("type", "id", "status")}
    return provider_call(
        item["type"].removesuffix("_call"), item.get("id"), item.get("status"), details
    )


class ResponsesStream(StreamAssembler):
    """Assembles `response.*` events. On most servers, the last one contains the whole response."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._response: JsonObject = {}
        self._items: dict[int, Any] = {}
        self._opened: set[int] = set()
        self._text: list[str] = []

    def add(self, event: JsonView) -> list[Delta]:
        match None if self.is_complete else event.get("type"):
            case "response.output_text.delta":
                return self._add_text(event["delta"])
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return [Delta("thinking", event["delta"])]
            case "response.refusal.delta":
                self.refusal += event["delta"]
                self.size += len(event["delta"])
            case "response.output_item.added":
                self._opened.add(event.get("output_index", len(self._items)))
            case "response.output_item.done":
                self._items[event.get("output_index", len(self._items))] = event["item"]
                self.size += BLOCK_SIZE + weight(event["item"])
            case "response.completed" | "response.incomplete":
                self._response, self.is_complete = event["response"], True
            case "response.failed":
                raise error_from_http(None, {}, event["response"], provider=self._provider)
            case "error":
                raise error_from_http(None, {}, {**event, "type": None}, provider=self._provider)
        return []

    def _add_text(self, text: str) -> list[Delta]:
        self._text.append(text)
        self.size += len(text)
        return [Delta("text", text)]

    def response(self) -> JsonObject:
        if self._response.get("output") and not self.refusal:
            return self._response
        is_cut_off = not self._response or self._opened - self._items.keys()
        return {
            **self._response,
            "output": self._items_or_text(),
            **({"status": NO_END} if is_cut_off else {}),
        }

    def _items_or_text(self) -> list[Any]:
        items = [self._items[index] for index in sorted(self._items)]
        said = [{"type": "refusal", "refusal": self.refusal}] if self.refusal else []
        if self._text and not items:
            said = [{"type": "output_text", "text": "".join(self._text)}, *said]
        return (
            [*items, {"type": "message", "role": "assistant", "content": said}] if said else items
        )
