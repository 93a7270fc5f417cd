"""The events of an Anthropic Messages stream, assembled into the response (§8)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..json_types import JsonObject, JsonView
from .base import BLOCK_SIZE, Delta, StreamAssembler, weight
from .ends import NO_END, ends
from .errors import error_from_http

LAST_IS_WHOLE = "last_block_is_whole"
"""Marks an assembled message that was cut short after the end of its last block, a tool call."""
_TEXT_DELTAS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
"""Type of a delta → the key of its text, in the delta as in the block that it continues."""


class MessagesStream(StreamAssembler):
    """Events open and continue blocks by their index; the usage at the end completes the one at the
    start.
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._message: JsonObject = {}
        self._blocks: dict[int, _Block] = {}
        self._stopped: Any = None
        """The index of the last closed block."""

    def add(self, event: JsonView) -> list[Delta]:
        match None if self.is_complete else event.get("type"):
            case "message_start":
                self._message = {
                    **event["message"],
                    "usage": _counts(event["message"].get("usage")),
                }
            case "content_block_start":
                self._blocks[event["index"]] = _Block(event["content_block"])
                self.size += BLOCK_SIZE + weight(event["content_block"])
            case "content_block_stop":
                self._stopped = event["index"]
            case "content_block_delta":
                return self._add_delta(self._blocks[event["index"]], event["delta"])
            case "message_delta":
                self._message |= event["delta"] | {
                    "usage": self._message["usage"] | _counts(event.get("usage"))
                }
            case "message_stop":
                self.is_complete = True
            case "error":
                raise error_from_http(None, {}, event, provider=self._provider)
        return []

    def _add_delta(self, block: _Block, delta: JsonView) -> list[Delta]:
        self.size += sum(weight(value) for key, value in delta.items() if key != "type")
        return block.add(delta)

    def response(self) -> JsonObject:
        indexes = sorted(self._blocks)
        content = [self._blocks[index].whole() for index in indexes]
        word = self._message.get("stop_reason") or NO_END
        is_closed = indexes[-1:] == [self._stopped] and isinstance(content[-1].get("input"), dict)
        is_whole = {LAST_IS_WHOLE: True} if is_closed and ends().get(word) == "cut_short" else {}
        return {**self._message, "content": content, "stop_reason": word, **is_whole}


class _Block:
    """One content block and the pieces of it that have arrived."""

    def __init__(self, opened: JsonObject) -> None:
        self._opened = opened
        self._pieces: dict[str, list[str]] = {}
        self._citations: list[Any] = []

    def add(self, delta: JsonView) -> list[Delta]:
        kind = delta["type"]
        if kind == "input_json_delta":
            self._pieces.setdefault("input", []).append(delta["partial_json"])
        elif kind == "citations_delta":
            self._citations.append(delta["citation"])
        elif kind in _TEXT_DELTAS:
            return self._add_text(_TEXT_DELTAS[kind], delta)
        return []

    def whole(self) -> JsonObject:
        block = dict(self._opened)
        for key, pieces in self._pieces.items():
            text = "".join(pieces)
            block[key] = _input(text, block) if key == "input" else (block.get(key) or "") + text
        if self._citations:
            block["citations"] = [*(block.get("citations") or []), *self._citations]
        return block

    def _add_text(self, key: str, delta: JsonView) -> list[Delta]:
        text = delta[key]
        if not isinstance(text, str):
            raise TypeError(f"expected text, got {text!r:.80}")
        self._pieces.setdefault(key, []).append(text)
        if key == "signature" or not text:
            return []
        return [Delta("thinking" if key == "thinking" else "text", text)]


def _counts(usage: Any) -> JsonObject:
    """Return the counts in an event; a later event omits unchanged counts, or sends them as
    null.
    """
    return (
        {key: count for key, count in usage.items() if count is not None}
        if isinstance(usage, Mapping)
        else {}
    )


def _input(text: str, block: JsonView) -> Any:
    """Return a tool's arguments; the plain text if they were cut off (§9.8 turns that into a tool
    result).
    """
    if not text:
        return block.get("input") or {}
    try:
        return json.loads(text)
    except ValueError:
        return text
