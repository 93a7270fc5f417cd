"""Temporal takes so many updates of one history: decisions, repeated ones included, do not use them
up.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import WorkflowHistory, WorkflowUpdateFailedError
from temporalio.worker import Replayer, Worker

from perdure.client import RunHandle
from perdure.errors import ApprovalError
from perdure.protocol.names import APPROVAL, WORKFLOW
from perdure.protocol.outcome import RunOutput
from perdure.protocol.run import RunInput
from perdure.testing import asks, call, says
from perdure.tools import tool
from perdure.worker import PerdurePlugin
from perdure.workflows.agent_run import AgentRun
from perdure.workflows.runner import OwnWorkflowRunner

from ..support.agents import Scripted, scripted_agent, tool_texts
from ..support.comparison import links
from ..support.stage import Stage
from ..support.waiting import wait_for


@workflow.defn(name=WORKFLOW, sandboxed=False)
class ImpatientRun(AgentRun):
    """Goes on in a new link after ten decisions, where others do after a thousand."""

    max_updates = 10

    @workflow.init
    def __init__(self, input: RunInput) -> None:
        super().__init__(input)

    @workflow.run
    async def run(self, input: RunInput) -> RunOutput:
        return await super().run(input)


class ImpatientPlugin(PerdurePlugin):
    def configure_worker(self, config: Any) -> Any:
        return {**super().configure_worker(config), "workflows": [ImpatientRun]}


@tool(needs_approval=True)
def pay(text: str = "") -> str:
    """Pay."""
    return f"paid {text}"


@asynccontextmanager
async def worker(stage: Stage) -> AsyncIterator[None]:
    """A worker whose runs are impatient; they are replayed as such."""
    plugin = ImpatientPlugin(tools=[pay], tool_loop=asyncio.get_running_loop())
    async with Worker(stage.client, task_queue=stage.task_queue, plugins=[plugin]):
        yield
    replayer = Replayer(
        workflows=[ImpatientRun],
        data_converter=stage.client.data_converter,
        unsandboxed_workflow_runner=OwnWorkflowRunner(),
    )
    for run in stage.runs:
        for link in await links(stage.client, run.id):
            await replayer.replay_workflow(WorkflowHistory(run.id, link.history))
    stage.runs.clear()


async def waiting(run: RunHandle, *calls: str) -> None:
    async def are_there() -> bool:
        return [each.call_id for each in (await run.status()).pending_approvals] == list(calls)

    await wait_for(are_there)


async def test_of_one_round_more_than_there_are_updates(stage: Stage, scripted: Scripted) -> None:
    ids = [f"c{number}" for number in range(21)]
    model = scripted(
        [asks(*(call("pay", id, text=id) for id in ids)), asks(call("pay", "late")), says("done")]
    )
    async with worker(stage):
        run = await stage.start(scripted_agent(model, ["pay"]), parallel_tool_calls=True)
        await waiting(run, *ids)
        for id in ids:
            await run.approve(id)
        with pytest.raises(ApprovalError, match="in another way"):
            await run.deny("c0", "too late")
        await waiting(run, "late")
        await run.approve("late")
        result = await run.result()
    assert tool_texts(result.messages) == [
        *(f"paid {id}" for id in ids),
        "paid ",
    ]
    assert len(await links(stage.client, run.id)) == 2


async def test_repeated_ones_are_refused_as_such(stage: Stage, scripted: Scripted) -> None:
    model = scripted([asks(call("pay", "first"), call("pay", "second")), says("done")])
    async with worker(stage):
        run = await stage.start(scripted_agent(model, ["pay"]), parallel_tool_calls=True)
        await waiting(run, "first", "second")
        for _ in range(25):
            await run.approve("first")
        handle = stage.client.get_workflow_handle(run.id)
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await handle.execute_update(APPROVAL, {"call_id": "first", "approved": True})
        assert refused.value.cause.details == ({"kind": "repeated"},)  # type: ignore[attr-defined]
        accepted = sum(
            [
                event.HasField("workflow_execution_update_accepted_event_attributes")
                async for event in handle.fetch_history_events()
            ]
        )
        assert accepted == 10
        await run.approve("second")
        assert (await run.result()).output == "done"


async def test_a_reason_has_a_limit(stage: Stage, scripted: Scripted) -> None:
    async with stage.worker([pay]):
        run = await stage.start(
            scripted_agent(scripted([asks(call("pay", "first")), says("done")]), ["pay"])
        )
        await waiting(run, "first")
        with pytest.raises(
            ApprovalError, match="the reason takes 100,000 bytes: at most 65,536"
        ) as refused:
            await run.deny("first", "x" * 100_000)
        assert refused.value.kind == "too_large"
        await run.deny("first", "no")
        await run.result()
