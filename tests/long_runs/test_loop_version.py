"""A change of the loop: runs that began before it go the older way, their next links and new runs
the newer one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from temporalio import workflow
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowExecutionStatus, WorkflowHandle, WorkflowHistory
from temporalio.worker import Replayer, Worker

from perdure.history.chain import read_links
from perdure.loop.state import LOOP_VERSION
from perdure.messages import Message
from perdure.protocol.names import WORKFLOW
from perdure.protocol.outcome import RunOutput
from perdure.protocol.run import RunInput
from perdure.testing import asks, call, says
from perdure.worker import PerdurePlugin
from perdure.workflows.agent_run import AgentRun
from perdure.workflows.runner import OwnWorkflowRunner

from ..support.agents import Scripted, scripted_agent
from ..support.gates import GatedReplies
from ..support.stage import Stage
from ..support.waiting import wait_for

NEWER = LOOP_VERSION + 1
ROUNDS = 8


@workflow.defn(name=WORKFLOW, sandboxed=False)
class NewerAgentRun(AgentRun):
    """The workflow of the next version, whose loop waits before each iteration."""

    loop_version = NEWER

    @workflow.init
    def __init__(self, input: RunInput) -> None:
        super().__init__(input)

    @workflow.run
    async def run(self, input: RunInput) -> RunOutput:
        return await super().run(input)

    async def _checkpoint(self) -> None:
        await super()._checkpoint()
        if self.state.input.loop_version >= NEWER:
            await workflow.sleep(0.001, summary="the planted change")


class NewerPlugin(PerdurePlugin):
    """perdure's plugin of that version."""

    def configure_worker(self, config: Any) -> Any:
        return {**super().configure_worker(config), "workflows": [NewerAgentRun]}


def look(text: str = "") -> str:
    return "x" * 500


@asynccontextmanager
async def newer_worker(stage: Stage, **tools: Any) -> AsyncIterator[None]:
    plugin = NewerPlugin(tools=tools, tool_loop=asyncio.get_running_loop())
    async with Worker(stage.client, task_queue=stage.task_queue, plugins=[plugin]):
        yield


async def failed_tasks(handle: WorkflowHandle[Any, Any]) -> list[str]:
    """Why the run's workflow tasks have failed."""
    return [
        event.workflow_task_failed_event_attributes.failure.message
        async for event in handle.fetch_history_events()
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
    ]


async def replayed_by_newer(stage: Stage, id: str) -> list[int]:
    """Replay a run's links by the newer code; return how many timers each has."""
    replayer = Replayer(
        workflows=[NewerAgentRun],
        data_converter=stage.client.data_converter,
        unsandboxed_workflow_runner=OwnWorkflowRunner(),
    )
    links = [link async for link in read_links(stage.client, id)]
    for link in links:
        await replayer.replay_workflow(WorkflowHistory(id, link.history))
    return [
        sum(each.event_type == EventType.EVENT_TYPE_TIMER_STARTED for each in link.history)
        for link in links
    ]


async def test_a_run_that_began_before_a_change_goes_on_by_the_older_loop(
    stage: Stage, scripted: Scripted
) -> None:
    rounds = [asks(call("look", f"c{step}", text=str(step))) for step in range(ROUNDS)]
    replies = GatedReplies(*rounds, says("done"), held=2)
    agent = scripted_agent(scripted(replies), ["look"])
    async with stage.worker({"look": look}):
        run = await stage.start(agent)
        await replies.wait_until_reached()
    replies.open.set()
    async with newer_worker(stage, look=look):
        assert (await run.result()).output == "done"
    stage.runs.clear()  # Its later links are the newer loop's: the stage's code can't replay them.
    before, *after = await replayed_by_newer(stage, run.id)
    assert before == 0
    assert min(after) > 0


async def test_a_run_of_a_newer_loop_waits_for_a_worker_that_has_it(
    stage: Stage, scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    input = RunInput(
        agent=scripted_agent(scripted([says("I knew")])),
        messages=[Message.user("Guess")],
        loop_version=NEWER,
    )
    async with stage.worker():
        handle = await stage.client.start_workflow(
            WORKFLOW,
            input,
            id=stage.task_queue,
            task_queue=stage.task_queue,
            result_type=RunOutput,
            # The SDK reports the first failure only: each further task of the run ends with its
            # time-out.
            task_timeout=timedelta(seconds=1),
        )
        [reason] = await wait_for(lambda: failed_tasks(handle))
        assert reason.startswith(
            f"the run {handle.id!r} (link {handle.first_execution_run_id}) needs version {NEWER} "
        )
        assert (await handle.describe()).status == WorkflowExecutionStatus.RUNNING
    assert reason in caplog.text

    async with newer_worker(stage):
        assert (await asyncio.wait_for(handle.result(), 30)).output == "I knew"
    assert await replayed_by_newer(stage, handle.id) == [1]
