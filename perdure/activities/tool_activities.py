"""The types of activity that execute tools, one for each name: so the Temporal UI and metrics tell tools apart."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from temporalio import activity
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from ..messages import ToolResult
from ..protocol.activities import TOOL_PREFIX, ToolInput

RunTool = Callable[[ToolInput], Awaitable[ToolResult]]


def named_activity(name: str, run_tool: RunTool) -> Callable[..., Any]:
    """The activity for the tool of that name alone."""

    @activity.defn(name=f"{TOOL_PREFIX}{name}")
    async def run_named_tool(input: ToolInput) -> ToolResult:
        return await run_tool(input)

    return run_named_tool


def dynamic_activity(run_tool: RunTool) -> Callable[..., Any]:
    """The activity for tools whose names only runs know, such as those of MCP servers.

    It gets every type that the worker has no activity of, and refuses those that are no tools as the SDK does.
    """

    @activity.defn(dynamic=True)
    async def run_any_tool(arguments: Sequence[RawValue]) -> ToolResult:
        name = activity.info().activity_type
        if not name.startswith(TOOL_PREFIX) or len(arguments) != 1:
            text = f"Activity function {name} is not registered on this worker"
            raise ApplicationError(text, type="NotFoundError")
        input = activity.payload_converter().from_payload(arguments[0].payload, ToolInput)
        return await run_tool(input)

    return run_any_tool


def has_dynamic(activities: Sequence[Callable[..., Any]]) -> bool:
    """Whether one of these is a dynamic activity; a worker can have only one."""
    return any(
        (definition := activity._Definition.from_callable(function)) is not None and definition.name is None
        for function in activities
    )
