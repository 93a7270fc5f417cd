"""Waits until a person has decided about a tool call, or it is too late to."""

from __future__ import annotations

from contextlib import suppress

from temporalio import workflow

from ..loop.effects import Cancelled
from ..questions import Asked
from ..tool_calls import Approval, ToolRequest
from .approvals import OpenApproval
from .inbox import Inbox
from .log_lines import goes_on, waits
from .measures import person_waited_for
from .summaries import about_call


async def decision(
    inbox: Inbox, opened: OpenApproval, request: ToolRequest, asked: Asked, deadline: float | None
) -> Approval:
    """What a person decides about the call, or its denial when `asked.deadline` or the run's `deadline` has passed.

    Raises `Cancelled` when the run is cancelled first.
    """
    waits(request, asked)
    ends = [end for end in (deadline, asked.deadline) if end is not None]
    with suppress(TimeoutError):
        await workflow.wait_condition(
            lambda: inbox.cancelled or opened.approval is not None,
            timeout=max(0.0, min(ends) - workflow.time()) if ends else None,
            timeout_summary=about_call("denied if nobody has decided", request.name, request.arguments),
        )
    inbox.approvals.close(opened)
    person_waited_for(opened.pending, opened.approval, cancelled=inbox.cancelled)
    if opened.approval is None and inbox.cancelled:
        raise Cancelled
    if opened.approval is None and min(ends) != asked.deadline:  # The loop looks at its limits next.
        return Approval(approved=False, reason="the time of the run is over (max_seconds)")
    if opened.approval is None:
        opened.approval = inbox.approvals.expire(opened, asked)
    goes_on(request, asked, opened.approval)
    return opened.approval
