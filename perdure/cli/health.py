"""A file that is fresh for as long as a worker is well: for the health checks of container engines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .problems import UsageProblem

if TYPE_CHECKING:
    from temporalio.worker import Worker

SECONDS = 2.0
"""The time between two touches."""


@asynccontextmanager
async def fresh_file(path: Path | None, worker: Worker) -> AsyncIterator[None]:
    """Touch the file while the block runs, as long as the event loop turns and the worker works; then remove it.

    Does nothing without a path. Raises `UsageProblem` when the file can't be written.
    """
    if path is None:
        yield
        return
    try:
        path.touch()
    except OSError as error:
        raise UsageProblem(f"--health-file {str(path)!r}: the file can't be written ({error.strerror})") from error
    task = asyncio.create_task(_touch(path, worker))
    try:
        yield
    finally:
        task.cancel()
        path.unlink(missing_ok=True)


async def _touch(path: Path, worker: Worker) -> None:
    while not worker.is_shutdown:
        path.touch()
        await asyncio.sleep(SECONDS)
