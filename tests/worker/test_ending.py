"""The end of a worker whose core does not end."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.client import Client
from temporalio.worker import Worker

from perdure.activities.pollers import somebody_polls
from perdure.errors import ConfigurationError
from perdure.json_types import JsonObject
from perdure.worker import create_worker
from perdure.worker.ending import bound_end, failing_soon

from ..support.waiting import wait_for


async def test_a_core_that_never_ends_is_left(caplog: pytest.LogCaptureFixture) -> None:
    bridge = SimpleNamespace(finalize_shutdown=asyncio.Event().wait)
    worker: Any = SimpleNamespace(task_queue="books", _bridge_worker=bridge)
    assert bound_end(cast(Worker, worker), 0.1) is worker
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        await bridge.finalize_shutdown()
    assert time.monotonic() - began < 5
    assert "The worker on the task queue 'books' is abandoned" in caplog.text


async def test_each_worker_has_the_bound(client: Client, task_queue: str) -> None:
    """The SDK still calls what `bound_end` replaces, and ends as it does without."""
    async with create_worker(client, task_queue=task_queue) as worker:
        await asyncio.sleep(0.1)
        bridge: Any = worker._bridge_worker
        finalize, ended = bridge.finalize_shutdown, []
        assert finalize.__module__ == "perdure.worker.ending"

        async def noted() -> None:
            await finalize()
            ended.append(worker)

        bridge.finalize_shutdown = noted
    assert ended == [worker]


async def test_nobody_waits_for_a_worker_that_was_cancelled_while_it_ended(
    client: Client, task_queue: str
) -> None:
    worker = create_worker(client, task_queue=task_queue)
    running = asyncio.create_task(worker.run())
    await wait_for(lambda: somebody_polls(client, task_queue))
    for _ in range(2):  # it ends, and is kept from ending
        running.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    await asyncio.wait([running])
    async with asyncio.timeout(10):
        await worker.shutdown()


async def test_a_failed_worker_ends_soon_and_says_why() -> None:
    settings: JsonObject = {}

    async def work() -> None:
        async with failing_soon(settings, 0.0):
            error = RuntimeError("Workflow worker failed")
            error.__cause__ = RuntimeError("the polls are refused")
            await settings["on_fatal_error"](error)
            await asyncio.Event().wait()

    with pytest.raises(ConfigurationError, match="The worker has failed: the polls are refused"):
        await work()
