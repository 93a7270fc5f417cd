"""Lets a worker end where the core of Temporal's SDK does not say that it has."""

from __future__ import annotations

import asyncio
from typing import Any

from temporalio.worker import Worker

from ..redaction import get_logger

END_SECONDS = 10.0
"""Since the last task of the worker was done; the core takes milliseconds."""
_log = get_logger("perdure.worker")


def bound_end(worker: Worker, seconds: float = END_SECONDS) -> Worker:
    """Give the SDK's core so long to finish when the worker's tasks are done; return the worker.

    Seen with temporalio 1.35 on a busy machine, in one of thirty workers that ended just after a cancelled model call:
    the core never finished, and the process had to be killed. Nothing is lost by leaving then, since all tasks were
    answered. The SDK takes any error of the core at this point for its end.
    """
    # The SDK has no public limit for this; its bridge to the core is private.
    bridge: Any = getattr(worker, "_bridge_worker", None)
    finalize = getattr(bridge, "finalize_shutdown", None)
    if finalize is None:
        return worker

    async def finalize_in_time() -> None:
        try:
            await asyncio.wait_for(finalize(), seconds)
        except TimeoutError:
            _log.warning(
                "The worker on the task queue %r is left: the SDK's core does not end after %g s",
                *(worker.task_queue, seconds),
            )
            raise

    bridge.finalize_shutdown = finalize_in_time
    return worker
