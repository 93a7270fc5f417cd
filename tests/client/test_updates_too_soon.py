"""Who reads a history where no worker is does not see what the workflow has not taken up yet, and
may answer that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.worker import Worker

from perdure.client import RunHandle
from perdure.testing import asks, says
from perdure.tools import tool
from perdure.worker import PerdurePlugin

from ..support.agents import Scripted, scripted_agent
from ..support.gates import GatedReplies
from ..support.stage import FEW_POLLS, Stage
from ..support.waiting import wait_for


class ActivitiesAlone(PerdurePlugin):
    """perdure's plugin of a worker that leaves all workflow tasks to others."""

    def configure_worker(self, config: Any) -> Any:
        return {**super().configure_worker(config), "workflows": []}


@asynccontextmanager
async def not_taken_up(
    stage: Stage, gate: GatedReplies, run: Callable[[], Awaitable[RunHandle]]
) -> AsyncIterator[RunHandle]:
    """A run whose first model call has ended, which its workflow does not know: no worker takes its
    next task.
    """
    other = await Client.connect(
        stage.client.service_client.config.target_host, data_converter=stage.client.data_converter
    )
    queue = stage.task_queue
    async with Worker(other, task_queue=queue, plugins=[ActivitiesAlone()], **FEW_POLLS):
        async with stage.worker(no_remote_activities=True):
            handle = await run()
            await gate.wait_until_reached()
        gate.open.set()
        await wait_for(lambda: has_no_activity(handle, stage))
    yield handle


async def has_no_activity(run: RunHandle, stage: Stage) -> bool:
    described = await stage.client.get_workflow_handle(run.id).describe()
    return not described.raw_description.pending_activities


async def test_a_decision_that_comes_with_what_made_the_call_wait(
    stage: Stage, scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "perdure")
    paid = []

    @tool(needs_approval=True)
    def pay(text: str = "") -> str:
        paid.append(text)
        return "paid"

    gate = GatedReplies(asks("pay"), says("done"))
    agent = scripted_agent(scripted(gate), ["pay"])
    async with not_taken_up(stage, gate, lambda: stage.start(agent)) as run:
        assert not (await run.status()).pending_approvals
        assert "waits for an approval" not in caplog.text, "who reads a history logs nothing"
        approving = asyncio.create_task(run.approve("call_pay"))
        await asyncio.sleep(
            0.3
        )  # On its way, before a worker comes; should it come later, nothing is shown by this.
        async with stage.worker([pay]):
            await approving
            assert (await run.result()).output == "done"
    assert paid == [""]
