"""Ends a worker when the core of Temporal's SDK does not report the end; tasks that end with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from temporalio.worker import Worker

from ..errors import ConfigurationError
from ..json_types import JsonObject
from ..redaction import get_logger
from ..text import one_line

FAILED_END_SECONDS = 5.0
"""Seconds in which a worker ends after the server has refused it tasks: it could not report any
result."""
END_SECONDS = 10.0
"""Seconds since the worker's last task ended; the core takes milliseconds."""
_log = get_logger("perdure.worker")


@asynccontextmanager
async def in_background(
    work: Callable[..., Coroutine[Any, Any, object]], *arguments: Any
) -> AsyncIterator[None]:
    """Run the function in a task while the block runs."""
    task = asyncio.create_task(work(*arguments))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def bound_end(worker: Worker, seconds: float = END_SECONDS) -> Worker:
    """Limit the time in which the SDK's core ends after the worker's tasks; return the worker.

    Seen with temporalio 1.35 on a busy machine, in one of thirty workers that ended just after a
    cancelled model call: the core never finished, and the process had to be killed. Leaving then
    loses nothing, since all tasks were answered. The SDK takes any error of the core at this point
    for its end.
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
                "The worker on the task queue %r is abandoned: the SDK's core did not end in %g s",
                *(worker.task_queue, seconds),
            )
            raise

    bridge.finalize_shutdown = finalize_in_time
    return worker


@contextmanager
def surely_over(worker: Worker) -> Iterator[None]:
    """Release all waiters for the worker's shutdown once the block has run it.

    The SDK (1.35) does not mark the shutdown complete if the worker is cancelled meanwhile, such as
    by the failure of another worker: leaving its `async with` would then hang.
    """
    try:
        yield
    finally:
        if isinstance(complete := getattr(worker, "_shutdown_complete_event", None), asyncio.Event):
            complete.set()


@asynccontextmanager
async def failing_soon(
    settings: JsonObject, seconds: float = FAILED_END_SECONDS
) -> AsyncIterator[None]:
    """End a worker with these settings, run in the block, soon after it has failed.

    Raises `ConfigurationError` with the reason of the failure.
    """
    failed: list[BaseException] = []
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None

    async def note(error: BaseException) -> None:
        failed.append(error)
        timer.append(loop.call_later(seconds, task.cancel))

    timer: list[asyncio.TimerHandle] = []
    settings["on_fatal_error"] = note
    try:
        yield
    except (RuntimeError, asyncio.CancelledError) as error:
        if not failed:
            raise
        why = failed[0].__cause__ or failed[0]
        raise ConfigurationError(f"The worker has failed: {one_line(str(why), 300)}") from error
    finally:
        for each in timer:
            each.cancel()
