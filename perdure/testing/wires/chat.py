"""The Chat Completions format (§7.1, §8), and what every wire format needs to write a reply."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...json_types import JsonObject
from ...messages import Message, ToolCall
from ..script import Api, ScriptedReply, ScriptedRequest

API: Api = "chat"
REQUEST_ID_HEADER = "x-request-id"
_ARGUMENT_PIECE = 16
"""Characters of a tool call's arguments in one event of a stream."""


@dataclass(frozen=True)
class CountedReply:
    """A reply with what a provider adds to it: the model's name, and the token counts."""

    reply: ScriptedReply
    step: int
    model: str
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    include_usage: bool
    """Whether a streamed chat completion ends with its usage (`stream_options.include_usage`)."""

    @classmethod
    def to(
        cls, request: ScriptedRequest, reply: ScriptedReply, *, request_bytes: int
    ) -> CountedReply:
        """Return the reply to a request; tokens that the script does not count are estimated from
        the bytes.
        """
        counted = (
            len(reply.text)
            + len(reply.thinking or "")
            + sum(len(call.arguments) for call in reply.tool_calls)
        )
        sent = max(1, request_bytes // 4) if reply.input_tokens is None else reply.input_tokens
        options = request.body.get("stream_options") or {}
        return cls(
            reply=reply,
            step=request.step,
            model=str(request.body.get("model", "scripted")),
            input_tokens=sent,
            cached_tokens=min(reply.cached_input_tokens, sent),
            output_tokens=max(1, counted // 4)
            if reply.output_tokens is None
            else reply.output_tokens,
            include_usage=bool(options.get("include_usage")),
        )


def words(text: str) -> list[str]:
    """`text` in pieces of about a token each; joined, they are `text` again."""
    return re.findall(r"\s*\S+|\s+", text)


def argument_pieces(arguments: str) -> list[str]:
    """Return a tool call's arguments in the pieces of a stream; [] for empty arguments."""
    return [
        arguments[start : start + _ARGUMENT_PIECE]
        for start in range(0, len(arguments), _ARGUMENT_PIECE)
    ]


def to_json(value: Any) -> bytes:
    """Return the value as compact JSON in UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def frame(data: Any, event: str | None = None) -> bytes:
    """One server-sent event."""
    head = f"event: {event}\n".encode() if event else b""
    return head + b"data: " + to_json(data) + b"\n\n"


def typed_frames(events: Iterator[JsonObject]) -> Iterator[bytes]:
    """Server-sent events, each named after its own `type`."""
    return (frame(event, event["type"]) for event in events)


def count_turns(body: JsonObject) -> int:
    """Return the assistant turns in the conversation of a request."""
    return sum(message.get("role") == "assistant" for message in body.get("messages", []))


def read_messages(body: JsonObject) -> list[Message]:
    """Return the conversation of a request in the neutral form."""
    return [_message(message) for message in body.get("messages", [])]


def _message(wire: JsonObject) -> Message:
    metadata = {key: wire[key] for key in ("tool_calls", "tool_call_id") if wire.get(key)}
    return Message(role=wire["role"], parts=text_of(wire.get("content")), metadata=metadata)


def text_of(content: Any) -> str:
    """Return the text of a message's content, whether a string or parts."""
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


def find_fault(body: JsonObject) -> str | None:
    """Return why the real API would answer 400, or None: every tool call needs its answer, every
    answer its call.
    """
    unanswered: list[str] = []
    for index, message in enumerate(body.get("messages", [])):
        if message.get("role") == "tool":
            if message.get("tool_call_id") not in unanswered:
                return (
                    f"Invalid parameter: messages[{index}] with role 'tool' must be a response to "
                    "a preceding message with 'tool_calls'."
                )
            unanswered.remove(message["tool_call_id"])
            continue
        if unanswered:
            break
        unanswered = [call["id"] for call in message.get("tool_calls") or []]
    if not unanswered:
        return None
    return (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to "
        "each 'tool_call_id'. The following tool_call_ids did not have response messages: "
        f"{', '.join(unanswered)}"
    )


def answer(given: CountedReply) -> JsonObject:
    """The body of a response that is not streamed."""
    reply = given.reply
    message: JsonObject = {"role": "assistant", "content": reply.text, "refusal": None}
    if reply.thinking is not None:
        message["reasoning_content"] = reply.thinking
    if reply.tool_calls:
        message["content"] = reply.text or None
        message["tool_calls"] = [call.to_metadata() for call in reply.tool_calls]
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": _finish_reason(given),
    }
    return _envelope(given, "chat.completion") | {"choices": [choice], "usage": _usage(given)}


def stream(given: CountedReply) -> Iterator[bytes]:
    """Yield the server-sent events of a streamed response."""
    yield _chunk(given, {"role": "assistant", "content": ""})
    for piece in words(given.reply.thinking or ""):
        yield _chunk(given, {"reasoning_content": piece})
    for piece in words(given.reply.text):
        yield _chunk(given, {"content": piece})
    for index, call in enumerate(given.reply.tool_calls):
        for delta in _call_deltas(index, call):
            yield _chunk(given, {"tool_calls": [delta]})
    if given.reply.error is not None:
        yield frame(given.reply.error)
        return
    yield _chunk(given, {}, finish_reason=_finish_reason(given))
    if given.include_usage:
        yield frame(
            _envelope(given, "chat.completion.chunk") | {"choices": [], "usage": _usage(given)}
        )
    yield b"data: [DONE]\n\n"


def error(status: int, message: str) -> JsonObject:
    """Return the body of an error response, in the provider's shape."""
    kind, code = _ERRORS.get(
        status, ("server_error" if status >= 500 else "invalid_request_error", None)
    )
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


_ERRORS: dict[int, tuple[str, str | None]] = {
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}


def _envelope(given: CountedReply, kind: str) -> JsonObject:
    return {
        "id": f"chatcmpl-scripted-{given.step}",
        "object": kind,
        "created": 0,
        "model": given.model,
    }


def _chunk(given: CountedReply, delta: JsonObject, finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    chunk = _envelope(given, "chat.completion.chunk") | {"choices": [choice]}
    return frame(chunk | {"usage": None} if given.include_usage else chunk)


def _call_deltas(index: int, call: ToolCall) -> Iterator[JsonObject]:
    yield {
        "index": index,
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": ""},
    }
    for piece in argument_pieces(call.arguments):
        yield {"index": index, "function": {"arguments": piece}}


def _finish_reason(given: CountedReply) -> str:
    return given.reply.finish_reason or ("tool_calls" if given.reply.tool_calls else "stop")


def _usage(given: CountedReply) -> JsonObject:
    return {
        "prompt_tokens": given.input_tokens,
        "completion_tokens": given.output_tokens,
        "total_tokens": given.input_tokens + given.output_tokens,
        "prompt_tokens_details": {"cached_tokens": given.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": len(given.reply.thinking or "") // 4,
            "audio_tokens": 0,
        },
    }
