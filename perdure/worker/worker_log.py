"""Logs when a worker begins, when it is told to end and awaits what runs, and when it is done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from temporalio.worker import Worker

from ..logs import get_logger
from .sdk_log import log_in_lines

_log = get_logger("perdure.worker")


@asynccontextmanager
async def logged(worker: Worker) -> AsyncIterator[None]:
    """For as long as the worker runs."""
    log_in_lines()
    _log.info("The worker on the task queue %r begins", worker.task_queue)
    draining = asyncio.create_task(_mention_draining(worker))
    try:
        yield
    finally:
        draining.cancel()
        await asyncio.wait([draining])
        _log.info("The worker on the task queue %r is done", worker.task_queue)


async def _mention_draining(worker: Worker) -> None:
    # The SDK tells a worker's plugins only of its end; the event that begins it is private.
    shutdown: Any = getattr(worker, "_shutdown_event", None)
    if isinstance(shutdown, asyncio.Event):
        await shutdown.wait()
        _log.info("The worker on the task queue %r takes nothing new and awaits what runs", worker.task_queue)
