"""Workers serve tenants in turn: one with many queued runs does not keep another one waiting."""

from __future__ import annotations

import asyncio

import pytest

from perdure.client import start_run
from perdure.messages import Message
from perdure.testing import ScriptedModel, says

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage


async def calls_before_another_tenant(
    stage: Stage, model: ScriptedModel, *, queued: int, slots: int
) -> int:
    """How many model calls of a tenant with queued runs begin after another one's start and before
    its first call.
    """
    agent = scripted_agent(model)
    for _ in range(queued):
        await stage.start(agent, [Message.user("many")], tenant="many")
    async with stage.worker(max_concurrent_activities=slots):
        await asyncio.to_thread(model.wait_until, lambda: len(model.requests) >= 2 * slots, 60)
        run = await stage.start(agent, [Message.user("few")], tenant="few")
        before = len(model.requests)
        await asyncio.wait_for(run.result(), 60)
        said = [request.messages[0].text for request in model.requests]
        await asyncio.gather(*(run.result() for run in stage.runs))
    return said.index("few") - before


async def test_another_tenant_is_served_in_turn(stage: Stage, scripted: Scripted) -> None:
    model = scripted(lambda request: says("done", delay=0.25))
    # It would be 36 without turns, and is 2 or 3 with them, unless a busy machine takes its time to
    # start the run.
    assert await calls_before_another_tenant(stage, model, queued=40, slots=2) < 34


async def test_a_tenant_may_have_a_larger_share(stage: Stage, scripted: Scripted) -> None:
    agent, task_queue = scripted_agent(scripted([says("done")])), stage.task_queue
    run = await start_run(
        stage.client, agent, task_queue=task_queue, tenant="acme", tenant_weight=2.0, messages=[]
    )
    described = (await stage.client.get_workflow_handle(run.id).describe()).raw_description
    assert described.workflow_execution_info.priority.fairness_weight == 2.0
    await stage.client.get_workflow_handle(run.id).terminate()


@pytest.mark.parametrize("given", [{"tenant_weight": 2.0}, {"tenant": "a", "tenant_weight": 0.0}])
async def test_a_share_that_can_not_be_is_refused(
    stage: Stage, scripted: Scripted, given: dict[str, object]
) -> None:
    with pytest.raises(ValueError, match=r"expected 0.001 to 1000, with a tenant"):
        await start_run(stage.client, scripted_agent(scripted([])), messages=[], **given)  # type: ignore[arg-type]
