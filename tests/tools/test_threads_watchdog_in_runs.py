"""Whatever blocks an event loop is named in the log: task and line, once for each time."""

from __future__ import annotations

import asyncio

import pytest
from temporalio import activity

from perdure.testing import asks, call, says
from perdure.tools import ToolContext

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage
from ..support.waiting import wait_for


@pytest.mark.parametrize("own", [True, False])
async def test_a_heartbeat_from_the_loop_of_the_tools_arrives(
    stage: Stage, scripted: Scripted, own: bool
) -> None:
    told = asyncio.Event()
    here = asyncio.get_running_loop()

    async def beats(context: ToolContext, text: str = "") -> str:
        assert asyncio.get_running_loop() is not here
        (context.heartbeat if own else activity.heartbeat)("half")
        while not told.is_set():
            await asyncio.sleep(0.01)
        return "whole"

    async with stage.worker({"beats": beats}, tool_loop=None):
        run = await stage.start(
            scripted_agent(scripted([asks(call("beats")), says("done")]), ["beats"])
        )
        workflow = stage.client.get_workflow_handle(run.id)

        async def details() -> bool:
            pending = (await workflow.describe()).raw_description.pending_activities
            return any("half" in str(each.heartbeat_details) for each in pending)

        await wait_for(details)
        told.set()
        assert (await run.result()).messages[3].text == "whole"
