"""Keeps the whole results of the tool calls of a run in this process."""

from __future__ import annotations

from collections.abc import Sequence

from ..kept_results import CallPlace, chosen
from ..messages import ToolResult
from ..tool_calls import ToolRequest


class DirectResults:
    """All results of one run, in memory."""

    def __init__(self) -> None:
        self._kept: dict[CallPlace, ToolResult] = {}

    def add(self, request: ToolRequest, result: ToolResult) -> ToolResult:
        """Keep a result, and return it."""
        place = CallPlace(request.iteration, request.index, request.call_id, request.name)
        self._kept[place] = result
        return result

    async def find(self, call_id: str, iteration: int | None, ignored: Sequence[str] = ()) -> ToolResult:
        """As `perdure.kept_results.KeptResults`. Raises UnknownCallError."""
        return self._kept[chosen((place for place in self._kept if place.name not in ignored), call_id, iteration)]
