"""OpenAI Chat Completions: its requests, responses and streams (§7.1, §8).

https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..declared_tools import Property
from ..json_types import JsonObject, JsonView
from ..messages import AudioPart, FilePart, ImagePart, Message, Part, TextPart
from .base import BLOCK_SIZE, Delta, FunctionDefinition, StreamAssembler, weight
from .ends import NO_END, Answer
from .errors import error_from_http
from .memo import Memo
from .openai import OpenAIFormat, audio_item, file_data, function_fields, schema_fields
from .outgoing import private_content
from .tool_call_text import (
    AcceptedMedia,
    arguments_text,
    as_url,
    only_text,
    read_calls,
    sendable_parts,
)
from .wire_format import read_usage

_INTERNAL_METADATA = frozenset(
    {
        "provider_content",
        "status",
        "error_kind",
        "sent_as",
        "outcome_unknown",
        "settled_outcomes",
        "instructions_by",
    }
)
_MESSAGE_FIELDS = frozenset(
    {"role", "content", "refusal", "tool_calls", "function_call", "annotations", "audio"}
)
_CALL_FIELDS = frozenset({"index", "id", "type", "function"})
_USAGE = {
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "total_tokens": "total_tokens",
    "cached_input_tokens": "prompt_tokens_details.cached_tokens",
    "reasoning_tokens": "completion_tokens_details.reasoning_tokens",
    "cache_write_tokens": "prompt_tokens_details.cache_write_tokens",
}


class OpenAIChat(OpenAIFormat):
    """`apiType: chat` of OpenAI, and of every server that speaks its protocol."""

    api = "chat"
    expected = "a completion with a list `choices` whose first has a `message`"
    path = "/chat/completions"
    title = "OpenAI Chat Completions"
    media = {
        "image": AcceptedMedia(url=True),
        "audio": AcceptedMedia(url=False),
        "file": AcceptedMedia(url=False),
    }
    options = {
        "temperature": "temperature",
        "max_output_tokens": "max_completion_tokens",
        "top_p": "top_p",
        "frequency_penalty": "frequency_penalty",
        "presence_penalty": "presence_penalty",
        "stop_sequences": "stop",
        "seed": "seed",
        "allow_multiple_tool_calls": "parallel_tool_calls",
    }

    def conversation(self, messages: Sequence[Message]) -> JsonObject:
        return {"messages": _messages(messages)}

    def tool(self, definition: FunctionDefinition) -> JsonObject:
        return {"type": "function", "function": function_fields(definition)}

    def output_format(self, outputs: Sequence[Property]) -> JsonObject:
        return {"response_format": {"type": "json_schema", "json_schema": schema_fields(outputs)}}

    def to_stream_body(self, request: JsonView) -> JsonObject:
        asked = request.get("stream_options") or {}
        return {**request, "stream": True, "stream_options": {**asked, "include_usage": True}}

    def read(self, response: JsonView) -> Answer:
        choice = response["choices"][0]
        # Gemini's filter passes nothing, not even a message.
        message = choice.get("message", {}) if choice.get("finish_reason") else choice["message"]
        asked = message.get("tool_calls") or []
        functions = [call.get("function") or {} for call in asked]
        content, refusal = message.get("content"), _content_text(message.get("refusal") or "")
        return Answer(
            text=refusal if content is None else _content_text(content),
            calls=read_calls(
                [
                    (call.get("id"), f.get("name"), f.get("arguments"))
                    for call, f in zip(asked, functions, strict=True)
                ],
                response.get("id"),
            ),
            usage=read_usage(response.get("usage"), _USAGE),
            finish_reason=choice.get("finish_reason"),
            refusal=refusal,
            error=choice.get("error"),
            # An object instead of its text does not reveal its end.
            open_calls=[len(asked) - 1]
            if asked and not isinstance(functions[-1].get("arguments"), str)
            else (),
            original=_private(message),
        )

    def assembler(self) -> StreamAssembler:
        return ChatStream(self.key)


class _Shown(JsonObject):
    """The user's message that shows the content of tool results other than text."""


def _wire_messages(message: Message) -> list[JsonObject]:
    """Return the message with its metadata as fields of their own (§7.1), and the content that only
    a user's message can show.

    A single text is a plain string, and so are all texts of a tool result together (§7.1, §9.5).
    """
    written: JsonObject = {"role": message.role}
    if message.metadata:
        written.update(
            (key, value) for key, value in message.metadata.items() if key not in _INTERNAL_METADATA
        )
        written["role"] = message.role
    if private := private_content(message, "chat"):
        written |= _with_private(written.get("tool_calls") or [], private[0])
    if not written.get("tool_calls", True):
        del written["tool_calls"]
    parts = message.parts
    if len(parts) != 1 or not isinstance(parts[0], TextPart):
        parts = sendable_parts(message, OpenAIChat.media, OpenAIChat.title)
    text = only_text(parts) if message.role == "tool" or len(parts) < 2 else None
    if text is not None or message.role != "tool":
        return [{**written, "content": [_part(part) for part in parts] if text is None else text}]
    return _result_and_shown(written, parts)


def _with_private(calls: list[JsonObject], fields: JsonView) -> JsonObject:
    """Return the server's own fields of a message, and its calls with their own fields."""
    beside = [*(fields.get("tool_calls") or ()), *({} for _ in calls)]
    return {
        **fields,
        "tool_calls": [{**call, **more} for call, more in zip(calls, beside, strict=False)],
    }


def _result_and_shown(written: JsonObject, parts: list[Part]) -> list[JsonObject]:
    """Return a result's texts, and its other content as a message of the user: the API accepts only
    texts in a result.
    """
    shown = [_part(part) for part in parts if not isinstance(part, TextPart)]
    told = {"type": "text", "text": f"[shown by the result of call {written.get('tool_call_id')}:]"}
    texts = [part.value for part in parts if isinstance(part, TextPart)]
    content = "\n".join([*texts, "[See the next message of the user.]"])
    return [{**written, "content": content}, _Shown(role="user", content=[told, *shown])]


def _join(messages: list[JsonObject], more: list[JsonObject]) -> None:
    """Keep the results of one reply together: the content that they show comes after all of
    them.
    """
    if not (more and messages and isinstance(messages[-1], _Shown) and more[0]["role"] == "tool"):
        messages += more
        return
    shown = messages.pop()
    content = [*shown["content"], *(part for message in more[1:] for part in message["content"])]
    messages += [more[0], _Shown(role="user", content=content)]


_messages = Memo[Message, JsonObject](_wire_messages, _join)


def _private(message: JsonView) -> list[Any] | None:
    """Return the fields outside the API, of the message and of its calls; None if there are
    none.
    """
    fields = {key: value for key, value in message.items() if key not in _MESSAGE_FIELDS and value}
    beside = [
        {key: value for key, value in call.items() if key not in _CALL_FIELDS and value}
        for call in message.get("tool_calls") or []
    ]
    found = {**fields, "tool_calls": beside} if any(beside) else fields
    return [found] if found else None


def _part(part: Part) -> JsonObject:
    match part:
        case TextPart():
            return {"type": "text", "text": part.value}
        case ImagePart():
            detail = {"detail": part.detail} if part.detail else {}
            return {"type": "image_url", "image_url": {"url": as_url(part), **detail}}
        case AudioPart():
            return audio_item(part)
        case FilePart():
            return {"type": "file", "file": file_data(part)}


def _content_text(content: Any) -> str:
    """Return the text of an answer's content; some servers send parts instead. Raises TypeError for
    anything else.
    """
    if isinstance(content, list):
        return "".join(part["text"] for part in content if part.get("type") == "text")
    if not isinstance(content, str):
        raise TypeError(f"expected text, got {content!r}")
    return content


class ChatStream(StreamAssembler):
    """Assembles `chat.completion.chunk` events into a `chat.completion` (§8)."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._head: JsonObject = {}
        self._text: list[str] = []
        self._calls: dict[int, JsonObject] = {}
        self._finish_reason: str | None = None
        self._fields: JsonObject = {}
        """The message's other fields, which are the server's own."""
        self._error: JsonObject = {}
        self._usage: Any = None

    def add(self, event: JsonView) -> list[Delta]:
        if event.get("error"):
            raise error_from_http(None, {}, event, provider=self._provider)
        for key in ("id", "created", "model"):
            self._head[key] = self._head.get(key) or event.get(key)
        self._usage = event.get("usage") or self._usage
        choices = [choice for choice in event.get("choices") or [] if not choice.get("index")]
        return [delta for choice in choices for delta in self._add_choice(choice)]

    def response(self) -> JsonObject:
        message: JsonObject = {
            "role": "assistant",
            "content": "".join(self._text) if self._text or not self._calls else None,
            "refusal": self.refusal or None,
            **self._fields,
        }
        if self._calls:
            message["tool_calls"] = [
                _whole_call(self._calls[index]) for index in sorted(self._calls)
            ]
        word = self._finish_reason or NO_END
        choice = {"index": 0, "message": message, "finish_reason": word} | self._error
        return {
            **self._head,
            "object": "chat.completion",
            "choices": [choice],
            "usage": self._usage,
        }

    def _add_choice(self, choice: JsonView) -> list[Delta]:
        delta = choice.get("delta") or {}
        self._refuse(delta.get("refusal"))
        for call in delta.get("tool_calls") or []:
            self._add_call(call)
        if choice.get("error"):
            self._error, self.is_complete = {"error": choice["error"]}, True
        if choice.get("finish_reason"):
            self._finish_reason = choice["finish_reason"]
            self.is_complete = True
        deltas = []
        self.size += add_fields(self._fields, delta, _MESSAGE_FIELDS)
        thinking = delta.get("reasoning_content") or delta.get("reasoning")
        if thinking and isinstance(thinking, str):
            deltas.append(Delta("thinking", thinking))
        if text := _content_text(delta.get("content") or ""):
            self._text.append(text)
            self.size += len(text)
            deltas.append(Delta("text", text))
        return deltas

    def _refuse(self, words: Any) -> None:
        if words:
            self.refusal += words
            self.size += len(words)

    def _add_call(self, delta: JsonView) -> None:
        """Add a piece of a call; the first one has its id and name. Some servers number every call
        0, or do not number them.
        """
        index = delta.get("index")
        if index is None:
            index = max(self._calls, default=-1) + bool(delta.get("id"))
        known = self._calls.get(index)
        if known and delta.get("id") and known["id"] and delta["id"] != known["id"]:
            index, known = max(self._calls) + 1, None
        if known is None:
            known = self._calls[index] = {"id": None, "name": None, "arguments": [], "fields": {}}
            self.size += BLOCK_SIZE
        self.size += add_fields(known["fields"], delta, _CALL_FIELDS)
        function = delta.get("function") or {}
        known["id"] = known["id"] or delta.get("id")
        known["name"] = known["name"] or function.get("name")
        arguments = arguments_text(function.get("arguments"))
        known["arguments"].append(arguments)
        self.size += len(arguments)


def _whole_call(pieces: JsonView) -> JsonObject:
    function = {"name": pieces["name"], "arguments": "".join(pieces["arguments"])}
    return {"id": pieces["id"], "type": "function", "function": function, **pieces["fields"]}


def add_fields(fields: JsonObject, delta: JsonView, known: frozenset[str]) -> int:
    """Add a delta's fields other than the known ones; return their size. Texts grow, and lists by
    their items.
    """
    added = {key: value for key, value in delta.items() if key not in known and value}
    for key, value in added.items():
        before: Any = fields.get(key)
        if isinstance(before, str) and isinstance(value, str):
            fields[key] = before + value
        elif isinstance(before, list) and isinstance(value, list):
            fields[key] = before
            for item in value:
                _add_item(before, item)
        else:
            fields[key] = list(value) if isinstance(value, list) else value
    return sum(map(weight, added.values()))


def _add_item(items: list[Any], item: Any) -> None:
    """Add an item of a streamed list: it continues the last one if both have the same `index` and
    type.
    """
    last: Any = items[-1] if items else None
    is_same = isinstance(item, dict) and isinstance(last, dict) and "index" in item
    if is_same and all(item.get(key) == last.get(key) for key in ("index", "type")):
        texts = {
            key: last[key] + item[key]
            for key in ("text", "summary", "data")
            if key in item and key in last
        }
        items[-1] = {**last, **item, **texts}
    else:
        items.append(item)
