"""`kind: builtin`: offers the built-in tool of the declaration's name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...agent import Tool
from ...spelling import did_you_mean
from ..kind import Asking, KindCall, Offering, ToolKind
from .ask_user import AskUser
from .base import BuiltInTool
from .read_result import ReadResult

BUILT_IN_TOOLS: Mapping[str, BuiltInTool] = {tool.offering.name: tool for tool in [AskUser(), ReadResult()]}
"""Name → tool."""


class BuiltInTools(ToolKind):
    """The model is offered a built-in tool where the file declares one, and not otherwise."""

    def problems(self, tool: Tool) -> Sequence[str]:
        found = BUILT_IN_TOOLS.get(tool.name)
        if found is None:
            names = ", ".join(BUILT_IN_TOOLS)
            return [
                f"{tool.name!r} is no built-in tool{did_you_mean(tool.name, BUILT_IN_TOOLS)}: expected one of {names}"
            ]
        if getattr(tool, "parameters", None):
            return ["a built-in tool has parameters of its own: leave out `parameters`"]
        return found.problems(tool)

    async def offer(self, tool: Tool, asking: Asking) -> Sequence[Offering]:
        offering = BUILT_IN_TOOLS[tool.name].offering
        return [replace(offering, description=tool.description or offering.description)]

    async def execute(self, call: KindCall) -> Any:
        return await BUILT_IN_TOOLS[call.tool.name].execute(call)
