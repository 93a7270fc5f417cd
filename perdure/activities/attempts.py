"""What one attempt at a tool's execution knows of the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import Any

from temporalio import activity
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError

from ..tool_calls import progress_of


def last_heartbeat(*, is_counted: bool) -> tuple[Any, ...]:
    """The details that the attempt before this one has told last; where starts are counted, without the count."""
    details = tuple(activity.info().heartbeat_details)
    if is_counted or (details and is_count_of_starts(details[0])):
        details = details[1:]
    return details[:-1] if details and progress_of(details[-1]) else details


def is_count_of_starts(detail: Any) -> bool:
    """Whether a detail of a heartbeat says how often a call was started, as those of suspects do."""
    return isinstance(detail, dict) and detail.get("event") == "tool_starts"


def asked_from_anywhere() -> Callable[[], Awaitable[bool]]:
    """`handed_on` of the current activity, for whatever thread, task or callback asks."""
    context = copy_context()

    async def ask() -> bool:
        return await asyncio.get_running_loop().create_task(handed_on(), context=context)

    return ask


async def handed_on() -> bool:
    """Whether this activity was cancelled because another attempt goes on with it, not because its run is over.

    Costs a request to the server where the cancellation itself does not say.
    """
    details = activity.cancellation_details()
    if details is None or details.cancel_requested:
        return False
    if details.worker_shutdown:
        return True
    # The server does not know this attempt any more: the run is over, or this worker was taken for lost.
    info = activity.info()
    assert info.workflow_id is not None
    handle = activity.client().get_workflow_handle(info.workflow_id, run_id=info.workflow_run_id)
    try:
        description = await handle.describe()
    except RPCError:
        return True
    is_cancelled = description.raw_description.workflow_extended_info.cancel_requested
    return description.status == WorkflowExecutionStatus.RUNNING and not is_cancelled
