"""A cancelled parent's child is cancelled too, also after it has continued as new, and its result
is not lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.exceptions import ChildWorkflowError
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from perdure.loop.effects import Cancelled
from perdure.workflows.child_runs import child_result

from ..support.waiting import wait_for


@workflow.defn
class Child:
    """Continues as new `links` times, then waits to be cancelled, and does then as it is told."""

    @workflow.run
    async def run(self, links: int, then: str) -> str:
        if links:
            workflow.continue_as_new(args=[links - 1, then])
        try:
            await workflow.wait_condition(lambda: False)
        except asyncio.CancelledError:
            if then == "answer":
                return "ended in order"
            if then == "ignore":
                await workflow.sleep(timedelta(seconds=5))
            raise
        return ""


@workflow.defn
class Parent:
    """Waits for a child; its cancellation is a fact, as in perdure's runs, not an exception."""

    def __init__(self) -> None:
        self.is_cancelled = False

    @workflow.run
    async def run(self, links: int, then: str) -> str:
        waiting = asyncio.create_task(self._ask_child(links, then))
        while not waiting.done():
            try:
                await asyncio.shield(waiting)
            except asyncio.CancelledError:
                self.is_cancelled = True
            except (ChildWorkflowError, Cancelled):
                break
        error = waiting.exception()
        if isinstance(error, ChildWorkflowError):
            return type(error.cause).__name__
        return waiting.result() if error is None else type(error).__name__

    async def _ask_child(self, links: int, then: str) -> str:
        handle: workflow.ChildWorkflowHandle[Any, str] = await workflow.start_child_workflow(
            "Child", args=[links, then], id=f"{workflow.info().workflow_id}/child", result_type=str
        )
        patience = 0.2 if then == "ignore" else 10.0
        return await child_result(handle, lambda: self.is_cancelled, grace=0.05, patience=patience)


@pytest.fixture
async def _worker(client: Client, task_queue: str) -> AsyncIterator[None]:
    runner = UnsandboxedWorkflowRunner()
    async with Worker(
        client, task_queue=task_queue, workflows=[Child, Parent], workflow_runner=runner
    ):
        yield


@pytest.mark.usefixtures("_worker")
@pytest.mark.parametrize("links", [0, 1])
@pytest.mark.parametrize(
    ("then", "expected"),
    [("obey", "CancelledError"), ("answer", "ended in order"), ("ignore", "Cancelled")],
)
async def test_cancelling_the_parent(
    client: Client, task_queue: str, links: int, then: str, expected: str
) -> None:
    parent = await client.start_workflow(
        "Parent", args=[links, then], id=task_queue, task_queue=task_queue
    )
    child = client.get_workflow_handle(f"{task_queue}/child")

    async def is_at_last_link() -> bool:
        try:
            found = (await child.describe()).raw_description.workflow_execution_info
        except RPCError:  # It is not there yet.
            return False
        return not links or found.first_run_id != found.execution.run_id

    await wait_for(is_at_last_link)
    await parent.cancel()
    assert await parent.result() == expected

    async def has_ended() -> bool:
        return (await child.describe()).status != WorkflowExecutionStatus.RUNNING

    await wait_for(has_ended)  # With its parent at the latest.
