"""What every wire format needs to write an answer down: the reply with its counts, text in pieces, and SSE frames."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..script import ScriptedReply, ScriptedRequest

_ARGUMENT_PIECE = 16
"""Characters of a tool call's arguments in one event of a stream."""


@dataclass(frozen=True)
class Answer:
    """A reply with what a provider adds to it."""

    reply: ScriptedReply
    step: int
    model: str
    input_tokens: int
    output_tokens: int
    include_usage: bool
    """Whether a streamed chat completion ends with its usage (`stream_options.include_usage`)."""

    @classmethod
    def to(cls, request: ScriptedRequest, reply: ScriptedReply, *, request_bytes: int) -> Answer:
        counted = len(reply.text) + len(reply.thinking or "") + sum(len(call.arguments) for call in reply.tool_calls)
        options = request.body.get("stream_options") or {}
        return cls(
            reply=reply,
            step=request.step,
            model=str(request.body.get("model", "scripted")),
            input_tokens=max(1, request_bytes // 4) if reply.input_tokens is None else reply.input_tokens,
            output_tokens=max(1, counted // 4) if reply.output_tokens is None else reply.output_tokens,
            include_usage=bool(options.get("include_usage")),
        )


def words(text: str) -> list[str]:
    """`text` in pieces of about a token; joined they are `text` again."""
    return re.findall(r"\s*\S+|\s+", text)


def argument_pieces(arguments: str) -> list[str]:
    return [arguments[start : start + _ARGUMENT_PIECE] for start in range(0, len(arguments), _ARGUMENT_PIECE)]


def to_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def frame(data: Any, event: str | None = None) -> bytes:
    """One server-sent event."""
    head = f"event: {event}\n".encode() if event else b""
    return head + b"data: " + to_json(data) + b"\n\n"


def typed_frames(events: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    """Server-sent events named after their own `type`."""
    return (frame(event, event["type"]) for event in events)
