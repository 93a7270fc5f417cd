"""What every wire format needs to write a reply: its token counts, its text in pieces, and server-sent events."""

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
class CountedReply:
    """A reply with what a provider adds to it: the model's name, and the token counts."""

    reply: ScriptedReply
    step: int
    model: str
    input_tokens: int
    output_tokens: int
    include_usage: bool
    """Whether a streamed chat completion ends with its usage (`stream_options.include_usage`)."""

    @classmethod
    def to(cls, request: ScriptedRequest, reply: ScriptedReply, *, request_bytes: int) -> CountedReply:
        """The reply to a request; tokens that the script does not count are estimated from the bytes."""
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
    """`text` in pieces of about a token each; joined, they are `text` again."""
    return re.findall(r"\s*\S+|\s+", text)


def argument_pieces(arguments: str) -> list[str]:
    """A tool call's arguments in the pieces of a stream; [] for empty arguments."""
    return [arguments[start : start + _ARGUMENT_PIECE] for start in range(0, len(arguments), _ARGUMENT_PIECE)]


def to_json(value: Any) -> bytes:
    """The value as compact JSON in UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def frame(data: Any, event: str | None = None) -> bytes:
    """One server-sent event."""
    head = f"event: {event}\n".encode() if event else b""
    return head + b"data: " + to_json(data) + b"\n\n"


def typed_frames(events: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    """Server-sent events, each named after its own `type`."""
    return (frame(event, event["type"]) for event in events)
