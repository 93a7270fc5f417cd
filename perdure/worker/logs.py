"""Logs a worker's start and end, and shortens tracebacks of Temporal's SDK to a line."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker
from temporalio.workflow import NondeterminismError

from ..errors import ConfigurationError
from ..payloads.encryption import EncryptionError
from ..protocol.activities import INTERNAL_ERROR
from ..redaction import get_logger
from ..workflows.offers import NewerRunError
from .ending import in_background

WORKFLOW_LOGGERS = ("temporalio.worker._workflow", "temporalio.worker._workflow_instance")
ACTIVITY_LOGGER = "temporalio.activity"
OWN_PREFIX = "perdure."
"""Prefix of perdure's activity types."""
MAX_RUNS = 1000
"""Number of runs remembered as mentioned."""


class WorkflowTasks(logging.Filter):
    """Logs a failed workflow task in one line if the error is complete; a run that can't be
    decrypted only once.
    """

    def __init__(self) -> None:
        super().__init__()
        self._mentioned: OrderedDict[object, None] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, RuntimeError) and isinstance(error.__cause__, ConfigurationError):
            error = error.__cause__  # The SDK's error for undecodable values has no details.
        if isinstance(error, EncryptionError):
            return self._is_new(record, error)
        if isinstance(error, ConfigurationError | NewerRunError | NondeterminismError):
            _replace_text(record, f"{record.getMessage()}: {error}")
        return True

    def _is_new(self, record: logging.LogRecord, error: EncryptionError) -> bool:
        about = getattr(record, "temporal_workflow", None)
        found = about.get("run_id") if isinstance(about, Mapping) else None
        run = found or (
            record.args[0] if isinstance(record.args, tuple) and record.args else record.msg
        )
        if run in self._mentioned:
            return False
        self._mentioned[run] = None
        if len(self._mentioned) > MAX_RUNS:
            self._mentioned.popitem(last=False)
        _replace_text(
            record, f"The run with run ID {run} is left to a worker that can read it: {error}"
        )
        record.levelno, record.levelname = logging.ERROR, logging.getLevelName(logging.ERROR)
        return True


class ActivityAttempts(logging.Filter):
    """Logs a failed attempt of a perdure activity in one line; an unexpected error keeps its
    traceback.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        about = getattr(record, "temporal_activity", None)
        if error is None or not isinstance(about, Mapping):
            return True
        type, run = str(about.get("activity_type")), about.get("workflow_id")
        if type.startswith(OWN_PREFIX) and getattr(error, "type", None) != INTERNAL_ERROR:
            attempt = about.get("attempt")
            record.__dict__.update(run=run, attempt=attempt)
            _replace_text(record, f"Run {run}: {type} failed (attempt {attempt}): {_words(error)}")
        return True


def _words(error: BaseException) -> str:
    return (
        error.message if isinstance(error, ApplicationError) else f"{type(error).__name__}: {error}"
    )


def _replace_text(record: logging.LogRecord, text: str) -> None:
    record.msg, record.args = text, None
    record.exc_info = record.exc_text = None


_workflow_tasks, _attempts = WorkflowTasks(), ActivityAttempts()


def log_in_lines() -> None:
    """Make this process log perdure's known errors in one line."""
    for name in WORKFLOW_LOGGERS:
        logging.getLogger(name).addFilter(_workflow_tasks)
    logging.getLogger(ACTIVITY_LOGGER).addFilter(_attempts)


_log = get_logger("perdure.worker")


@asynccontextmanager
async def log_while(worker: Worker) -> AsyncIterator[None]:
    """Log while the worker runs."""
    log_in_lines()
    _log.info("The worker on the task queue %r begins", worker.task_queue)
    try:
        async with in_background(_mention_draining, worker):
            yield
    finally:
        _log.info("The worker on the task queue %r is done", worker.task_queue)


async def _mention_draining(worker: Worker) -> None:
    # The SDK informs plugins of a worker's end only; the event that begins it is private.
    shutdown: Any = getattr(worker, "_shutdown_event", None)
    if isinstance(shutdown, asyncio.Event):
        await shutdown.wait()
        _log.info(
            "The worker on the task queue %r takes no new tasks and waits for the current ones",
            worker.task_queue,
        )
