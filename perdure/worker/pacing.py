"""Gives out the permits of a worker's rates, beside the worker itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from temporalio.client import Client
from temporalio.worker import Worker

from ..activities.permits import permit
from ..protocol.pacing import rate_queue

SHARE = 0.95
"""Of the rate, that permits are given out at: calls begin a little after their permits, now sooner and now later."""
POLLS = 2
"""At a time, on each rate queue: two give out some hundred permits a second."""


@asynccontextmanager
async def giving_permits(worker: Worker, rates: Mapping[str, float]) -> AsyncIterator[None]:
    """While the block runs, poll a rate queue for each rate; Temporal gives no more out than the rate allows.

    All workers of a task queue share its rate queues. Each poll tells the server the rate: the last one told holds.
    """
    async with AsyncExitStack() as stack:
        for name, rate in rates.items():
            await stack.enter_async_context(_giver(worker, rate_queue(worker.task_queue, name), rate))
        yield


def _giver(worker: Worker, task_queue: str, rate: float) -> Worker:
    return Worker(
        _without_plugins(worker.client),
        task_queue=task_queue,
        activities=[permit],
        max_task_queue_activities_per_second=SHARE * rate,
        max_concurrent_activity_task_polls=POLLS,
    )


def _without_plugins(client: Client) -> Client:
    """The same connection: what plugins add to workers is not for one that gives permits."""
    config = client.config()
    config["plugins"] = []
    return Client(**config)
