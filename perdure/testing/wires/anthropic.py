"""The Anthropic Messages format: reads requests, finds what the real API would refuse, writes
responses (§7.5, §8).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

from ...json_types import JsonObject
from ...messages import Message, ToolCall
from ..script import Api
from .chat import CountedReply, argument_pieces, text_of, typed_frames, words
from .chat import count_turns as count_turns

API: Api = "anthropic"
REQUEST_ID_HEADER = "request-id"
Event = JsonObject
Block = JsonObject


def read_messages(body: JsonObject) -> list[Message]:
    """Return the conversation of a request in the neutral form."""
    messages = [Message.system(text_of(body["system"]))] if body.get("system") else []
    for wire in body.get("messages", []):
        messages.extend(_assistant(wire) if wire["role"] == "assistant" else _user(wire))
    return messages


def _assistant(wire: JsonObject) -> Iterator[Message]:
    calls = [
        ToolCall(id=block["id"], name=block["name"], arguments=_arguments(block["input"]))
        for block in _blocks(wire, "tool_use")
    ]
    yield Message.assistant("".join(block["text"] for block in _blocks(wire, "text")), calls)


def _user(wire: JsonObject) -> Iterator[Message]:
    for block in _blocks(wire, "tool_result"):
        metadata = {"tool_call_id": block["tool_use_id"]}
        yield Message(role="tool", parts=text_of(block.get("content")), metadata=metadata)
    if texts := _blocks(wire, "text"):
        yield Message.user("".join(block["text"] for block in texts))


def _arguments(given: Any) -> str:
    return (
        given
        if isinstance(given, str)
        else json.dumps(given, ensure_ascii=False, separators=(",", ":"))
    )


def _blocks(wire: JsonObject, kind: str) -> list[Block]:
    content = wire.get("content") or []
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [block for block in blocks if block.get("type") == kind]


def find_fault(body: JsonObject) -> str | None:
    """Return why the real API would answer 400, or None: calls and results pair up, and no text
    block is empty.
    """
    asked: list[str] = []
    for index, message in enumerate(body.get("messages", [])):
        if any(block["text"] == "" for block in _blocks(message, "text")):
            return f"messages.{index}: text content blocks must be non-empty"
        answered = [block["tool_use_id"] for block in _blocks(message, "tool_result")]
        if stray := [given for given in answered if given not in asked]:
            return (
                f"messages.{index}: unexpected `tool_use_id` found in `tool_result` blocks: "
                f"{', '.join(stray)}. Each `tool_result` block must have a corresponding "
                "`tool_use` block in the previous message."
            )
        if missing := [given for given in asked if given not in answered]:
            return _unanswered_error(index - 1, missing)
        asked = [block["id"] for block in _blocks(message, "tool_use")]
    return _unanswered_error(len(body.get("messages", [])) - 1, asked) if asked else None


def _unanswered_error(index: int, missing: list[str]) -> str:
    return (
        f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately "
        f"after: {', '.join(missing)}. Each `tool_use` block must have a corresponding "
        "`tool_result` block in the next message."
    )


def answer(given: CountedReply) -> JsonObject:
    """The body of a response that is not streamed."""
    return _message(given) | {"content": _content(given), "stop_reason": _stop_reason(given)}


def stream(given: CountedReply) -> Iterator[bytes]:
    """Yield the server-sent events of a streamed response."""
    return typed_frames(_events(given))


def error(status: int, message: str) -> JsonObject:
    """Return the body of an error response, in the provider's shape."""
    kind = _ERRORS.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return {
        "type": "error",
        "error": {"type": kind, "message": message},
        "request_id": "req_scripted",
    }


_ERRORS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def _events(given: CountedReply) -> Iterator[Event]:
    start = _message(given)
    yield {
        "type": "message_start",
        "message": start | {"usage": start["usage"] | {"output_tokens": 1}},
    }
    yield {"type": "ping"}
    arguments = iter(call.arguments for call in given.reply.tool_calls)
    for index, block in enumerate(_content(given)):
        empty, deltas = _open_block(block, arguments)
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        yield from (
            {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
        )
        yield {"type": "content_block_stop", "index": index}
    if given.reply.error is not None:
        yield {"type": "error"} | given.reply.error
        return
    delta = {"stop_reason": _stop_reason(given), "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": given.output_tokens}}
    yield {"type": "message_stop"}


def _open_block(block: JsonObject, arguments: Iterator[str]) -> tuple[JsonObject, list[JsonObject]]:
    """Return the block as its start event shows it, and the deltas that fill it."""
    if block["type"] == "thinking":
        deltas = [
            {"type": "thinking_delta", "thinking": piece} for piece in words(block["thinking"])
        ]
        signature = {"type": "signature_delta", "signature": block["signature"]}
        return block | {"thinking": "", "signature": ""}, [*deltas, signature]
    if block["type"] == "text":
        return block | {"text": ""}, [
            {"type": "text_delta", "text": piece} for piece in words(block["text"])
        ]
    if block["type"] != "tool_use":
        return block, []
    pieces = ["", *argument_pieces(next(arguments))]
    return block | {"input": {}}, [
        {"type": "input_json_delta", "partial_json": piece} for piece in pieces
    ]


def _message(given: CountedReply) -> JsonObject:
    return {
        "id": f"msg_scripted_{given.step}",
        "type": "message",
        "role": "assistant",
        "model": given.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": given.input_tokens - given.cached_tokens,
            "output_tokens": given.output_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": given.cached_tokens,
        },
    }


def _content(given: CountedReply) -> list[JsonObject]:
    reply, blocks = given.reply, list[JsonObject]()
    if reply.thinking is not None:
        signature = base64.b64encode(f"signed by step {given.step}".encode()).decode()
        blocks.append({"type": "thinking", "thinking": reply.thinking, "signature": signature})
    blocks += reply.provider_items
    if reply.text:
        blocks.append({"type": "text", "text": reply.text})
    blocks += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call)}
        for call in reply.tool_calls
    ]
    return blocks


def _input(call: ToolCall) -> Any:
    try:
        given = json.loads(call.arguments)
    except ValueError:
        return call.arguments
    return given if isinstance(given, dict) else call.arguments


def _stop_reason(given: CountedReply) -> str:
    return given.reply.finish_reason or ("tool_use" if given.reply.tool_calls else "end_turn")
