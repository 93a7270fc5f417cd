"""Puts calls on the task queues of tools that have `max_parallel`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, TimeoutType
from temporalio.exceptions import TimeoutError as TemporalTimeoutError

from ..messages import ToolResult
from ..protocol.names import IS_POLLED
from ..protocol.run import QueueInput
from .policies import COMPACTION_RETRIES, MARGIN
from .run_state import RunState

FIRST_LOOK, LAST_LOOK = timedelta(seconds=60), timedelta(minutes=10)
"""Time until a call on its tool's queue checks whether a worker polls that queue; the time
doubles."""


async def on_tool_queue(
    state: RunState,
    queue: str,
    start: Callable[[str | None, timedelta | None], Awaitable[ToolResult]],
) -> ToolResult:
    """Return the result of the call that `start` puts on the tool's queue, with a deadline for its
    begin.

    If no worker polls that queue, because none limits the tool any longer, the call moves to the
    run's own queue. Raises what `start` raises.
    """
    patience = FIRST_LOOK
    while True:
        try:
            return await start(queue, patience)
        except ActivityError as error:
            cause = error.cause
            if (
                not isinstance(cause, TemporalTimeoutError)
                or cause.type is not TimeoutType.SCHEDULE_TO_START
            ):
                raise
        if not await is_polled(queue):
            state.emit_status(
                f"No worker polls the task queue {queue!r}: the call goes to the run's own"
            )
            return await start(None, None)
        patience = min(2 * patience, LAST_LOOK)


async def is_polled(queue: str) -> bool:
    """Return whether a worker polls a task queue. Raises `ActivityError` if the server does not
    answer.
    """
    found: bool = await workflow.execute_local_activity(
        IS_POLLED,
        QueueInput(task_queue=queue),
        result_type=bool,
        start_to_close_timeout=MARGIN,
        retry_policy=COMPACTION_RETRIES,
    )
    return found
