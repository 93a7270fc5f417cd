"""Assembles the chunks of an OpenAI Chat Completions stream (§8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .base import Delta, StreamAssembler
from .calls import arguments_text, content_text
from .errors import error_from_http


class ChatStream(StreamAssembler):
    """Assembles `chat.completion.chunk` events (§8)."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._head: dict[str, Any] = {}
        self._text: list[str] = []
        self._calls: dict[int, dict[str, Any]] = {}
        self._finish_reason: str | None = None
        self._usage: dict[str, Any] | None = None

    def add(self, event: Mapping[str, Any]) -> list[Delta]:
        if event.get("error"):
            raise error_from_http(None, {}, event, provider=self._provider)
        self._head = self._head or {key: event[key] for key in ("id", "created", "model") if key in event}
        self._usage = event.get("usage") or self._usage
        choices = [choice for choice in event.get("choices") or [] if not choice.get("index")]
        return [delta for choice in choices for delta in self._add_choice(choice)]

    def response(self) -> dict[str, Any]:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": "".join(self._text) if self._text or not self._calls else None,
            "refusal": self.refusal or None,
        }
        if self._calls:
            message["tool_calls"] = [_whole_call(self._calls[index]) for index in sorted(self._calls)]
        choice = {"index": 0, "message": message, "finish_reason": self._finish_reason}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": self._usage}

    def _add_choice(self, choice: Mapping[str, Any]) -> list[Delta]:
        delta = choice.get("delta") or {}
        self.refusal += delta.get("refusal") or ""
        for call in delta.get("tool_calls") or []:
            self._add_call(call)
        if choice.get("finish_reason"):
            self._finish_reason = choice["finish_reason"]
            self.is_complete = True
        deltas = []
        if thinking := delta.get("reasoning_content") or delta.get("reasoning"):
            deltas.append(Delta("thinking", thinking))
        if text := content_text(delta.get("content") or ""):
            self._text.append(text)
            deltas.append(Delta("text", text))
        return deltas

    def _add_call(self, delta: Mapping[str, Any]) -> None:
        """The id and name come with the first piece; some servers number every call 0, or none at all."""
        index = delta.get("index")
        if index is None:
            index = max(self._calls, default=-1) + bool(delta.get("id"))
        known = self._calls.get(index)
        if known and delta.get("id") and known["id"] and delta["id"] != known["id"]:
            index, known = max(self._calls) + 1, None
        if known is None:
            known = self._calls[index] = {"id": None, "name": None, "arguments": []}
        function = delta.get("function") or {}
        known["id"] = known["id"] or delta.get("id")
        known["name"] = known["name"] or function.get("name")
        known["arguments"].append(arguments_text(function.get("arguments")))


def _whole_call(pieces: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": pieces["name"], "arguments": "".join(pieces["arguments"])}
    return {"id": pieces["id"], "type": "function", "function": function}
