"""The built-in tool `read_result`: pages through a result that was shortened for the model."""

from __future__ import annotations

from typing import Any

from ..kind import KindCall, Offering
from .base import BuiltInTool


class ReadResult(BuiltInTool):
    offering = Offering(
        name="read_result",
        description=(
            "Read a part of an earlier tool result that was too long to be shown whole. Give the id of the tool call, "
            "and where to begin."
        ),
        parameters={
            "type": "object",
            "properties": {
                "call_id": {"type": "string", "description": "The id of the tool call, as the shortened result says."},
                "offset": {"type": "integer", "minimum": 0, "description": "The first character to read; 0 if absent."},
                "length": {"type": "integer", "minimum": 1, "description": "How many characters to read at most."},
            },
            "required": ["call_id"],
        },
    )

    async def execute(self, call: KindCall) -> Any:
        raise LookupError(f"the result of the call {call.arguments['call_id']!r} is not kept")
