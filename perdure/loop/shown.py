"""What the model is shown of a tool's result, and what it is told to do for the rest."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ..excerpt import Note, left_out_here
from ..messages import ToolResult
from ..result_sizes import shortened, shown_bytes
from ..tool_calls import ToolRequest, ToolSpec


class ShownResults:
    """Shortens what is too long for the conversation; the whole result is kept elsewhere.

    `limit` holds for tools without one of their own.
    """

    def __init__(self, tools: Mapping[str, ToolSpec], limit: int | None = None) -> None:
        self._tools = tools
        self._limit = limit
        self._pager = next((spec.name for spec in tools.values() if spec.built_in == "read_result"), None)

    def __call__(self, request: ToolRequest, result: ToolResult) -> ToolResult:
        """The result as the conversation has it; `ToolResult.size` tells of one that was shortened."""
        limit = shown_bytes(self._tools[request.name].max_result or self._limit, request.calls)
        return shortened(result, limit, self._note(request))

    def _note(self, request: ToolRequest) -> Note:
        if self._pager in (None, request.name) or self._tools[request.name].local:
            return left_out_here

        def note(start: int, missing: int, whole: int) -> str:
            where = json.dumps({"call_id": request.call_id, "iteration": request.iteration, "offset": start})
            return f"{left_out_here(start, missing, whole)[:-2]}; {self._pager}({where}) reads on from here …]"

        return note
