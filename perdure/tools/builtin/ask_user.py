"""The built-in tool `ask_user`: puts a question to a person, whose answer is the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...agent import Tool
from ...tool_calls import Question
from ..kind import KindCall, Offering
from .base import BuiltInTool


class AskUser(BuiltInTool):
    offering = Offering(
        name="ask_user",
        description=(
            "Ask the user a question and wait for the answer. Use it when you can't go on without a decision or a "
            "piece of information that only the user has."
        ),
        parameters={
            "type": "object",
            "properties": {
                "question": {"type": "string", "description": "The question, complete in itself."},
                "choices": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Answers to choose from, if there are any.",
                },
                "allow_other": {
                    "type": "boolean",
                    "description": "False if the answer must be one of the choices; true if absent.",
                },
            },
            "required": ["question"],
        },
        idempotent=False,
        execution=Question(),
    )

    def problems(self, tool: Tool) -> Sequence[str]:
        if tool.perdure and tool.perdure.approval == "always":
            return ["perdure.approval is 'always': leave it out, because a person answers every question anyway"]
        return ()

    async def execute(self, call: KindCall) -> Any:
        raise NotImplementedError("the run itself asks, and waits for the answer")
