"""Waits for a permit before each model call of a run whose provider has a rate."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, RetryState
from temporalio.workflow import ActivityHandle

from ..loop.effects import Cancelled
from ..loop.limits import time_is_over
from ..protocol.names import PERMIT
from ..protocol.run import PacedCall, paced_model, rate_of
from .policies import LOST_WORKER_RETRIES, MARGIN, MOMENTARY_RETRIES, PACED_RETRIES
from .run_state import RunState
from .tool_queues import is_polled
from .waiting import give_up, wait_until

Result = TypeVar("Result")

FIRST_LOOK, LAST_LOOK = 5.0, 60.0
"""Seconds until a run that waits for a permit checks for a worker that issues permits; the pause
doubles."""
UNPACED_SECONDS = 600.0
"""Seconds that a run continues without permits after finding no issuer; then it requests one
again."""
ATTEMPTS = 10
"""Attempts at a model call whose workers are lost."""


@dataclass
class _Wait:
    """A requested permit."""

    queue: str
    since: float
    is_told: bool = False
    is_over: bool = False
    """Whether the run has given up waiting."""


class Pacing:
    """Takes permits from rate queues, each of which issues a number per second to all runs
    together.

    A permit is an activity that does nothing. One timer per run checks its waits. If no worker
    polls the rate queue, because none was started with this rate, the run reports that and
    continues without permits.
    """

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._wait: _Wait | None = None
        self._looking: asyncio.Task[None] | None = None
        self._unpaced_until = 0.0

    async def call(
        self, start: Callable[[RetryPolicy], Awaitable[Result]], fallback: int = 0
    ) -> Result:
        """Return the result of a model call that takes a permit for each attempt. `start` begins an
        attempt and awaits it.

        Raises `ActivityError`, what `start` raises, and as `permit` does.
        """
        attempts = 0
        while await self.permit(paced_model(fallback)):
            attempts += 1
            try:
                return await start(PACED_RETRIES)
            except ActivityError as error:
                if (
                    attempts == ATTEMPTS
                    or error.retry_state is not RetryState.MAXIMUM_ATTEMPTS_REACHED
                ):
                    raise
                workflow.logger.info("a paced model call is made again: %s", error.cause)
        return await start(LOST_WORKER_RETRIES)

    async def permit(self, call: PacedCall) -> bool:
        """Wait until this call may be made, and return whether it took a permit.

        Raises `Cancelled`, and `LimitExceededError` at the end of the run's time (`max_seconds`).
        """
        queue = self._state.inventory.paced.get(call)
        if queue is None or workflow.time() < self._unpaced_until:
            return False
        handle = workflow.start_activity(
            PERMIT,
            task_queue=queue,
            start_to_close_timeout=MARGIN,
            retry_policy=MOMENTARY_RETRIES,
            summary=f"permit: {rate_of(queue)}",
        )
        self._wait = wait = _Wait(queue, workflow.time())
        self._state.waits_for_rate = rate_of(queue)
        self._watch_waits()
        try:
            return await self._wait_for_grant(handle, wait)
        finally:
            self._wait = None
            self._state.waits_for_rate = None

    async def _wait_for_grant(self, handle: ActivityHandle[None], wait: _Wait) -> bool:
        deadline = self._state.deadline
        left = None if deadline is None else max(0.0, deadline - workflow.time())
        if not await wait_until(
            lambda: handle.done() or self._state.cancelled or wait.is_over, left, "max_seconds"
        ):
            await give_up(handle)
            raise time_is_over(
                self._state.options, "it passed while a model call waited for a permit"
            )
        if not handle.done():
            await give_up(handle)
        if self._state.cancelled:
            raise Cancelled
        if wait.is_over:
            return False
        try:
            await handle
        except ActivityError as error:
            self._go_on_without(wait, f"its permits fail ({error.cause})")
            return False
        return True

    def _watch_waits(self) -> None:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._check_waits())

    async def _check_waits(self) -> None:
        """Check the waits until a check finds none."""
        pause = FIRST_LOOK
        while self._wait is not None:
            await workflow.sleep(
                timedelta(seconds=pause), summary="whether somebody gives out permits"
            )
            wait = self._wait
            if wait is None or workflow.time() - wait.since < FIRST_LOOK:
                pause = FIRST_LOOK
                continue
            pause = min(2 * pause, LAST_LOOK)
            await self._look_at(wait)

    async def _look_at(self, wait: _Wait) -> None:
        if not await _is_polled(wait.queue):
            why = (
                f"no worker polls the task queue {wait.queue!r}: start workers with that rate, or "
                "the run without"
            )
            self._go_on_without(wait, why)
        elif not wait.is_told:
            wait.is_told = True
            self._state.emit_status(
                f"Waiting for a permit to call {rate_of(wait.queue)}, whose rate is limited"
            )

    def _go_on_without(self, wait: _Wait, why: str) -> None:
        if wait is self._wait:
            wait.is_over = True
            self._unpaced_until = workflow.time() + UNPACED_SECONDS
            rate, seconds = rate_of(wait.queue), UNPACED_SECONDS
            self._state.emit_status(
                f"Calls of {rate} go on without a rate for {seconds:g} s: {why}"
            )


async def _is_polled(queue: str) -> bool:
    try:
        return await is_polled(queue)
    except ActivityError as error:
        workflow.logger.warning(
            "who polls the task queue %r can't be found out: %s", queue, error.cause
        )
        return True
