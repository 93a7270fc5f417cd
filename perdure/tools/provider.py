"""`kind: provider`: the `options` of a declaration go to the provider as they are, and nothing is executed here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..declared_tools import Tool
from .kind import Asking, KindCall, Offering, ToolKind


class ProviderTools(ToolKind):
    """The provider is told of the tool with each model call; what it does with it comes with the reply."""

    def problems(self, tool: Tool) -> Sequence[str]:
        unused = [name for name in ("parameters", "bindings", "perdure") if getattr(tool, name, None)]
        if unused:
            return [f"a provider's tool has no {', '.join(unused)}: what the provider is to know goes under `options`"]
        return []

    async def offer(self, tool: Tool, asking: Asking) -> Sequence[Offering]:
        return []

    async def execute(self, call: KindCall) -> Any:
        raise NotImplementedError("the provider executes it")
