"""The workers of a task queue: one inside this process, and whether any polls the queue."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from .console import say
from .session import Session
from .user_code import UserCode

if TYPE_CHECKING:
    from temporalio.client import Client

DEFAULT_QUEUE = "perdure"
_PATIENCE_SECONDS = 3.0
_UNTOUCHED_HISTORY_LENGTH = 2
"""Events of a run that no worker has taken up: started, first workflow task scheduled."""
_POLL_SECONDS = 70.0
"""A worker polls at least once a minute; the server lists one that has left for longer than that."""


@asynccontextmanager
async def worker_inside(session: Session, *, task_queue: str, code: UserCode) -> AsyncIterator[None]:
    """Run a worker in this process, with a connection of its own, while the block runs."""
    from ..worker import create_worker

    client = await session.connect_again()
    async with create_worker(
        client,
        task_queue=task_queue,
        tools=code.tools,
        guardrails=code.guardrails,
        compactors=code.compactors,
        graceful_shutdown_timeout=timedelta(seconds=2),
    ):
        yield


async def somebody_polls(client: Client, task_queue: str) -> bool:
    """Whether a worker has lately polled the queue for workflow tasks."""
    from temporalio.api.enums.v1 import TaskQueueType
    from temporalio.api.taskqueue.v1 import TaskQueue
    from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest

    description = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=TaskQueue(name=task_queue),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        )
    )
    newest = max((poller.last_access_time.ToSeconds() for poller in description.pollers), default=0)
    return time.time() - newest < _POLL_SECONDS


async def mention_missing_worker(client: Client, run_id: str) -> None:
    """After a few seconds, say how to start a worker if none has taken the run up; the run waits for one."""
    await asyncio.sleep(_PATIENCE_SECONDS)
    run = await client.get_workflow_handle(run_id).describe()
    if run.close_time or run.history_length > _UNTOUCHED_HISTORY_LENGTH:
        return
    reason = "has not taken it up yet" if await somebody_polls(client, run.task_queue) else "is missing"
    say(
        f"Run {run_id} waits: a worker on the task queue {run.task_queue!r} {reason}. "
        f"Start one in another terminal: {worker_command(run.task_queue)}",
        "strong",
    )


def worker_command(task_queue: str, code: UserCode | None = None) -> str:
    """What to type to start a worker for the queue."""
    queue = "" if task_queue == DEFAULT_QUEUE else f" --task-queue {task_queue}"
    return f"perdure worker{queue}{code.as_options() if code else ' --tools module:functions'}"
