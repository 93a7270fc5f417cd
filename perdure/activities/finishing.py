"""Finishes tool calls whose result comes from another system."""

from __future__ import annotations

from temporalio import activity

from ..messages import ToolResult
from ..protocol import activities
from ..redaction import redactor
from ..tools.results import to_result
from .failures import typed_failures
from .tool_activities import recordable, result_limits


@activity.defn(name=activities.FINISH_CALL)
async def finish_call(input: activities.FinishInput) -> ToolResult:
    """Turn another system's completion into a tool result, within a tool's size limits and without
    secrets.
    """
    with typed_failures():
        completion, most = input.completion, result_limits(input.request)
        if completion.error is None:
            result = to_result(completion.value, most)
        else:
            text = f"Error: Tool '{input.request.name}' failed: {completion.error}"
            result = to_result(ToolResult.failure(text, kind="error"), most)
        return recordable(redactor().value(result), most)
