"""What one built-in tool is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ...agent import Tool
from ..kind import KindCall, Offering


class BuiltInTool:
    """Base of each built-in tool; `kind.py` has the table of them."""

    offering: ClassVar[Offering]
    """What the model is offered."""

    def problems(self, tool: Tool) -> Sequence[str]:
        """What is wrong with a declaration besides what holds of all of them, a sentence each."""
        return ()

    async def execute(self, call: KindCall) -> Any:
        """Execute one call, unless `offering.execution` says who does. Raises what becomes the tool's error."""
        raise NotImplementedError
