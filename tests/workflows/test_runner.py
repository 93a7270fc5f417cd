"""Tasks that take longer than the SDK's detector of deadlocks allows, and those of a worker that
has failed.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.worker import Worker

from perdure.workflows.runner import OwnWorkflowRunner


@workflow.defn(sandboxed=False)
class Slow:
    @workflow.run
    async def run(self) -> None:
        others = [asyncio.create_task(self._other()) for _ in range(10)]
        await asyncio.wait(others)

    async def _other(self) -> None:
        await asyncio.sleep(0)
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            try:
                time.sleep(0.001)
            except BaseException:  # as where the interruption comes in a callback of Python's own
                continue
        await workflow.wait_condition(lambda: False)


async def test_its_worker_ends(
    client: Client, task_queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with asyncio.timeout(30):
        async with Worker(
            client,
            task_queue=task_queue,
            workflows=[Slow],
            unsandboxed_workflow_runner=OwnWorkflowRunner(),
        ):
            run = await client.start_workflow(Slow.run, id=task_queue, task_queue=task_queue)
            async with asyncio.timeout(20):
                while "TMPRL1101" not in caplog.text:
                    await asyncio.sleep(0.05)
            await run.terminate()
    assert "tasks remain" not in caplog.text


@activity.defn
def ask() -> str:
    return "answered"


@workflow.defn(sandboxed=False)
class Asks:
    @workflow.run
    async def run(self) -> str:
        return await workflow.execute_local_activity(
            ask,
            start_to_close_timeout=timedelta(minutes=5),
            retry_policy=RetryPolicy(maximum_attempts=2),
        )


def _fail() -> None:
    raise RuntimeError("no thread can begin here")


async def test_another_worker_goes_on_where_one_has_failed(
    client: Client, task_queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The first attempt breaks the worker's threads, and with them the worker; the SDK answers for
    the second one.
    """

    def worker(threads: ThreadPoolExecutor) -> Worker:
        return Worker(
            client,
            task_queue=task_queue,
            workflows=[Asks],
            activities=[ask],
            activity_executor=threads,
            unsandboxed_workflow_runner=OwnWorkflowRunner(),
        )

    with ThreadPoolExecutor(1, initializer=_fail) as broken, ThreadPoolExecutor(1) as sound:
        run = await client.start_workflow(Asks.run, id=task_queue, task_queue=task_queue)
        with pytest.raises(RuntimeError, match="Activity worker failed"):
            await worker(broken).run()
        assert f"Run {task_queue}: a local activity was not executed" in caplog.text
        async with worker(sound):
            assert await run.result() == "answered"
