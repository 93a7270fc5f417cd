"""The messages of one run that a model call is the first to show."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any


class Conversation:
    """Model calls are each given the whole conversation: of each, this tells what was not there before."""

    def __init__(self) -> None:
        self._shown: Counter[str] = Counter()
        self._system = ""

    def system(self, instructions: Any) -> Any:
        """The system instructions, when they are not those of the call before."""
        key = _key(instructions)
        if instructions is None or key == self._system:
            return None
        self._system = key
        return instructions

    def news(self, messages: Any) -> list[Any]:
        """Of a call's input, what no call before it was given or has answered; results of tools are with the tools."""
        given = messages if isinstance(messages, list) else []
        count: Counter[str] = Counter()
        found = []
        for message in given:
            key = _key(message)
            count[key] += 1
            if count[key] > self._shown[key] and not _is_result(message):
                found.append(message)
        self._shown |= count
        return found

    def said(self, messages: Any) -> list[Any]:
        """A call's output, which the next call will be given."""
        given = messages if isinstance(messages, list) else []
        self._shown.update(_key(message) for message in given)
        return given


def _is_result(message: Any) -> bool:
    return isinstance(message, dict) and message.get("role") == "tool"


def _key(message: Any) -> str:
    if isinstance(message, dict):
        # An answer has a finish reason where it is output, and none where it is input.
        message = {name: value for name, value in message.items() if name != "finish_reason"}
    return json.dumps(message, sort_keys=True, default=str)
