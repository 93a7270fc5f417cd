"""Waits for a child workflow, whoever wrote it, and cancels it so that the request reaches it."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import FailureError
from temporalio.workflow import ChildWorkflowHandle

from ..loop.effects import Cancelled
from ..tool_calls import ToolRequest

Result = TypeVar("Result")

MAX_PARENT_BYTES = 900
"""A child's id begins with its parent's, unless that is longer: Temporal takes ids of 1,000 bytes."""
PATIENCE = 10.0
"""Seconds that a child has to end after it was asked to."""


def child_id(request: ToolRequest) -> str:
    """The id of the child that executes a call: the same whenever it is derived, and no other call's."""
    run = workflow.info().workflow_id
    if len(run.encode()) > MAX_PARENT_BYTES:
        run = blake2b(run.encode(), digest_size=16).hexdigest()
    return f"{run}/{request.iteration}-{request.index}"


async def child_result(
    handle: ChildWorkflowHandle[Any, Result],
    cancelled: Callable[[], bool],
    *,
    grace: float = 0.0,
    patience: float = PATIENCE,
) -> Result:
    """The child's result. If `cancelled()` becomes true first, the child is cancelled `grace` seconds later.

    A child that has ended by then, or ends well all the same, has its result returned: nothing is thrown away. Raises
    `ChildWorkflowError`, whose cause is a `CancelledError` where the child ended as cancelled, and `Cancelled` when the
    child has not ended `patience` seconds after the request. The parent's close policy decides what becomes of it.
    """
    await workflow.wait_condition(lambda: handle.done() or cancelled())
    if not await ended_within(handle, grace, "grace period of a running child"):
        await request_cancel(handle)
        if not await ended_within(handle, patience, "a cancelled child has this long to end"):
            handle.add_done_callback(lambda late: late.cancelled() or late.exception())  # Nobody awaits it any more.
            raise Cancelled
    return await handle


async def request_cancel(handle: ChildWorkflowHandle[Any, Any]) -> None:
    """Ask the child to end; returns when the server has recorded the request, not when the child has ended.

    By its id alone: a request by its handle names the child's first run, and is lost without a trace when the child has
    continued as new (https://github.com/temporalio/features/issues/503).
    """
    try:
        await workflow.get_external_workflow_handle(handle.id).cancel()
    except FailureError as error:  # It has just ended.
        workflow.logger.debug("the child %s can't be cancelled any more: %s", handle.id, error)


async def ended_within(handle: ChildWorkflowHandle[Any, Any], seconds: float, why: str) -> bool:
    """Whether the child has ended, within that time; 0 looks without waiting."""
    if seconds and not handle.done():
        try:
            await workflow.wait_condition(handle.done, timeout=seconds, timeout_summary=why)
        except TimeoutError:
            workflow.logger.info("the child %s has not ended within %g s", handle.id, seconds)
    return handle.done()
