"""Turns the failure of a tool activity into the tool result that tells the model (§9.9)."""

from __future__ import annotations

from temporalio.exceptions import ActivityError, ApplicationError, CancelledError, TimeoutError, TimeoutType

from ..loop.tools import CANCELLED_TEXT
from ..messages import ToolResult


def failed_result(name: str, error: ActivityError, timeout: float) -> ToolResult:
    """What the model is told about an execution that gave no result of its own."""
    cause = error.cause
    prefix = f"Error: Tool '{name}' failed:"
    if isinstance(cause, CancelledError):
        return ToolResult.failure(CANCELLED_TEXT, kind="cancelled", status="cancelled")
    if isinstance(cause, TimeoutError) and cause.type == TimeoutType.START_TO_CLOSE:
        return ToolResult.failure(f"{prefix} timed out after {timeout:g} seconds", kind="timeout", status="timeout")
    if isinstance(cause, TimeoutError):
        return ToolResult.failure(
            f"{prefix} its worker was lost while it ran; whether it took effect is not known", kind="worker_lost"
        )
    if isinstance(cause, ApplicationError):
        return ToolResult.failure(f"{prefix} {cause.message}", kind=cause.type or "error")
    return ToolResult.failure(f"{prefix} {error}", kind="error")
