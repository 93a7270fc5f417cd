"""Takes slots for the calls of tools that have a limit: over all workers, and on each one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutType
from temporalio.exceptions import TimeoutError as TemporalTimeoutError

from ..messages import ToolResult
from ..protocol.names import ASK_FOR_SLOT, IS_POLLED, SLOT_FREE, limit_id
from ..protocol.run import QueueInput
from ..protocol.tool_limit import AskInput, Slot
from ..tool_calls import ToolRequest, ToolSpec
from .policies import COMPACTION_RETRIES, LOST_WORKER_RETRIES, MARGIN
from .run_state import RunState
from .waiting import wait_until

ASK_AGAIN_SECONDS = 60.0
"""A call that has not got its slot asks again: what gives them out may have been lost."""
FIRST_LOOK, LAST_LOOK = timedelta(seconds=60), timedelta(minutes=10)
"""Until a call that waits on the queue of its tool looks whether anybody polls it; the time doubles."""


async def with_slot(
    state: RunState, spec: ToolSpec, request: ToolRequest, earlier: int, execute: Callable[[], Awaitable[ToolResult]]
) -> ToolResult:
    """Return what the call of a tool that has a limit gives; it has a slot meanwhile. Raises what `execute` raises."""
    assert spec.limit is not None
    info = workflow.info()
    ask = AskInput(
        key=f"{info.run_id}/{request.iteration}/{request.call_id}/{earlier}",
        workflow_id=info.workflow_id,
        run_id=info.run_id,
        limit=spec.limit,
        tool=request.name,
        task_queue=info.task_queue,
    )
    try:
        result = await execute() if await _take_slot(state, ask) else ToolResult.cancellation()
    except Exception:
        await _free(state, ask)
        raise
    await _free(state, ask)
    return result


async def _free(state: RunState, ask: AskInput) -> None:
    state.slots.discard(ask.key)
    limit = workflow.get_external_workflow_handle(limit_id(ask.task_queue, ask.tool))
    try:
        await limit.signal(SLOT_FREE, Slot(key=ask.key))
    except ApplicationError as error:
        workflow.logger.info("what gives out the slots of %s is not there: %s", ask.tool, error)


async def _take_slot(state: RunState, ask: AskInput) -> bool:
    """Return whether the call has its slot; the run was cancelled otherwise."""
    while True:
        await workflow.execute_local_activity(
            ASK_FOR_SLOT,
            ask,
            start_to_close_timeout=MARGIN,
            retry_policy=LOST_WORKER_RETRIES,
        )
        why = f"a slot of the tool {ask.tool}"
        state.ready_at = workflow.time() + ASK_AGAIN_SECONDS
        state.waits_for_slots.append(ask.tool)
        await wait_until(lambda: ask.key in state.slots or state.cancelled, ASK_AGAIN_SECONDS, why)
        state.waits_for_slots.remove(ask.tool)
        if state.cancelled or ask.key in state.slots:
            return not state.cancelled


async def on_tool_queue(
    state: RunState, queue: str, start: Callable[[str | None, timedelta | None], Awaitable[ToolResult]]
) -> ToolResult:
    """Return what the call gives that `start` puts on the tool's queue, with a time until it must have begun.

    Where nobody polls that queue, because no worker limits the tool any more, it goes to the run's own. Raises what
    `start` raises.
    """
    patience = FIRST_LOOK
    while True:
        since = workflow.time()
        try:
            return await start(queue, patience)
        except ActivityError as error:
            cause = error.cause
            if not isinstance(cause, TemporalTimeoutError) or cause.type is not TimeoutType.SCHEDULE_TO_START:
                raise
        state.ready_at = since + patience.total_seconds()
        if not await _is_polled(queue):
            state.emit_status(f"No worker polls the task queue {queue!r}: the call goes to the run's own")
            return await start(None, None)
        patience = min(2 * patience, LAST_LOOK)


async def _is_polled(queue: str) -> bool:
    found: bool = await workflow.execute_local_activity(
        IS_POLLED,
        QueueInput(task_queue=queue),
        result_type=bool,
        start_to_close_timeout=MARGIN,
        retry_policy=COMPACTION_RETRIES,
    )
    return found
