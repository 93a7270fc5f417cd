"""Assembles the events of an OpenAI Responses stream (§8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .base import Delta, StreamAssembler
from .errors import error_from_http


class ResponsesStream(StreamAssembler):
    """Assembles `response.*` events; the last one carries the whole response, if the server is complete."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._response: dict[str, Any] = {}
        self._items: dict[int, Any] = {}
        self._text: list[str] = []

    def add(self, event: Mapping[str, Any]) -> list[Delta]:
        match event.get("type"):
            case "response.output_text.delta":
                self._text.append(event["delta"])
                return [Delta("text", event["delta"])]
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return [Delta("thinking", event["delta"])]
            case "response.refusal.delta":
                self.refusal += event["delta"]
            case "response.output_item.done":
                self._items[event.get("output_index", len(self._items))] = event["item"]
            case "response.completed" | "response.incomplete":
                self._response, self.is_complete = event["response"], True
            case "response.failed":
                raise error_from_http(None, {}, event["response"], provider=self._provider)
            case "error":
                raise error_from_http(None, {}, {**event, "type": None}, provider=self._provider)
        return []

    def response(self) -> dict[str, Any]:
        if self._response.get("output"):
            return self._response
        return {**self._response, "output": self._assembled()}

    def _assembled(self) -> list[Any]:
        items = [self._items[index] for index in sorted(self._items)]
        if items or not self._text:
            return items
        return [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "".join(self._text)}]}
        ]
