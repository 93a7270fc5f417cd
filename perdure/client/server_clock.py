"""The server's clock, by which the times in a history are: this machine's may be another.

Temporal has no call for its time, but says when a task queue was polled last.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

from temporalio.api.enums.v1 import TaskQueueKind, TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, PollWorkflowTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError

_QUEUE = TaskQueue(name="perdure-clock", kind=TaskQueueKind.TASK_QUEUE_KIND_NORMAL)
"""Nothing is ever put into it."""
_POLL = timedelta(seconds=30)
_PATIENCE_SECONDS = 1.0
_LOOK_SECONDS = 0.002


async def server_time(client: Client, *, clock: Callable[[], float] = time.time) -> float:
    """Seconds since 1970 by the server's clock; by this machine's, `clock`, where the server does not tell.

    It takes a few calls, some 10 to 30 ms on one machine, and a second at most; never raises.
    """
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            ahead = await _ahead(client, clock)
    except (TimeoutError, RPCError):
        ahead = 0.0
    return clock() + ahead


async def _ahead(client: Client, clock: Callable[[], float]) -> float:
    """How far the server's clock is ahead of ours; 0 where they may agree."""
    identity = f"clock-{uuid.uuid4()}"
    poll = PollWorkflowTaskQueueRequest(namespace=client.namespace, task_queue=_QUEUE, identity=identity)
    before = clock()
    polling = asyncio.ensure_future(client.workflow_service.poll_workflow_task_queue(poll, timeout=_POLL))
    try:
        while not polling.done():
            if polled := await _last_poll(client, identity):
                after = clock()
                return 0.0 if before <= polled <= after else polled - (before + after) / 2
            await asyncio.sleep(_LOOK_SECONDS)
        await polling
        return 0.0
    finally:
        polling.cancel()
        with suppress(asyncio.CancelledError, RPCError):
            await polling


async def _last_poll(client: Client, identity: str) -> float | None:
    """When it has polled, by the server's clock; None before that is known."""
    described = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace, task_queue=_QUEUE, task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW
        )
    )
    found = [each.last_access_time for each in described.pollers if each.identity == identity]
    return found[0].ToNanoseconds() / 1e9 if found else None
