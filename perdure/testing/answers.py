"""Answers the tool calls of a model from the record of a run: each recorded result once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..arguments import parse_tool_arguments
from ..errors import ToolArgumentError
from ..messages import ToolCall, ToolResult
from .recording import RecordedCall

Key = tuple[str, str]


def call_key(call: ToolCall) -> Key:
    """Equal for calls that ask for the same: of one tool, with arguments that mean the same JSON.

    Neither the order of the arguments nor the spelling of numbers counts, nor an argument that is null.
    """
    try:
        arguments = parse_tool_arguments(call.arguments)
    except ToolArgumentError:
        return call.name, call.arguments.strip()
    given = {name: _plain(value) for name, value in arguments.items() if value is not None}
    return call.name, json.dumps(given, sort_keys=True, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(child) for name, child in value.items()}
    if isinstance(value, list):
        return [_plain(child) for child in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


class Unmatched(Exception):
    """The model asks for something of which the record has no result (any more)."""

    def __init__(self, calls: Sequence[ToolCall]) -> None:
        super().__init__(", ".join(f"{call.name}({call.arguments})" for call in calls))
        self.calls = list(calls)


class Answers:
    """The recorded calls that were not asked for yet."""

    def __init__(self, recorded: Sequence[RecordedCall]) -> None:
        self._recorded = list(recorded)
        self._keys = [call_key(each.call) for each in recorded]
        self._used: set[int] = set()
        self.reached = 0
        """The last iteration of the record that has answered a call."""
        self.skipped: list[RecordedCall] = []
        """What was not asked for when something of a later iteration was."""

    @property
    def used(self) -> int:
        """How many recorded calls were asked for."""
        return len(self._used)

    @property
    def left(self) -> list[RecordedCall]:
        """The recorded calls that were not asked for, in order."""
        return [each for number, each in enumerate(self._recorded) if number not in self._used]

    def claim(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """The results of the calls of one reply, whose order does not count.

        Raises Unmatched, and takes nothing, when the record has no result for one of them.
        """
        taken: dict[int, int] = {}
        for place, call in enumerate(calls):
            number = self._next(call, set(taken.values()))
            if number is not None:
                taken[place] = number
        if unmatched := [call for place, call in enumerate(calls) if place not in taken]:
            raise Unmatched(unmatched)
        self._used |= set(taken.values())
        self.reached = max([self.reached, *(self._recorded[number].iteration for number in taken.values())])
        behind = [each for each in self.left if each.iteration < self.reached]
        self.skipped += [each for each in behind if each not in self.skipped]
        return [self._recorded[taken[place]].told for place in range(len(calls))]

    def _next(self, call: ToolCall, taken: set[int]) -> int | None:
        key = call_key(call)
        free = (n for n, known in enumerate(self._keys) if known == key and n not in self._used and n not in taken)
        return next(free, None)
