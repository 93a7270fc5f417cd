"""Turns the failure of a tool activity into the tool result that tells the model (§9.9)."""

from __future__ import annotations

from temporalio.exceptions import ActivityError, ApplicationError, CancelledError, TimeoutError, TimeoutType

from ..loop.tools import CANCELLED_TEXT
from ..messages import ToolResult
from ..protocol.activities import lost_tool

WORKER_SHUTDOWN = "WorkerShutdown"
"""The error type by which Temporal's SDK reports an activity that its worker did not wait for any longer."""


def failed_result(name: str, error: ActivityError, timeout: float) -> ToolResult:
    """What the model is told about an execution that gave no result of its own."""
    cause = error.cause
    prefix = f"Error: Tool '{name}' failed:"
    if isinstance(cause, CancelledError):
        return ToolResult.failure(CANCELLED_TEXT, kind="cancelled", status="cancelled")
    if isinstance(cause, TimeoutError) and cause.type == TimeoutType.START_TO_CLOSE:
        return ToolResult.failure(f"{prefix} timed out after {timeout:g} seconds", kind="timeout", status="timeout")
    if isinstance(cause, TimeoutError):
        return lost_tool(name)
    if isinstance(cause, ApplicationError):
        if cause.type == WORKER_SHUTDOWN:
            return lost_tool(name)
        return ToolResult.failure(f"{prefix} {cause.message}", kind=cause.type or "error")
    return ToolResult.failure(f"{prefix} {error}", kind="error")
