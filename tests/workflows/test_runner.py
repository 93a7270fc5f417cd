"""A workflow task that takes longer than the SDK's detector of deadlocks allows, as on a busy machine."""

from __future__ import annotations

import asyncio
import time

import pytest
from temporalio import workflow
from temporalio.client import Client
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


async def test_its_worker_ends(client: Client, task_queue: str, caplog: pytest.LogCaptureFixture) -> None:
    async with asyncio.timeout(30):
        async with Worker(
            client, task_queue=task_queue, workflows=[Slow], unsandboxed_workflow_runner=OwnWorkflowRunner()
        ):
            run = await client.start_workflow(Slow.run, id=task_queue, task_queue=task_queue)
            async with asyncio.timeout(20):
                while "TMPRL1101" not in caplog.text:
                    await asyncio.sleep(0.05)
            await run.terminate()
    assert "tasks remain" not in caplog.text
