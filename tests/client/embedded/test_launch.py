"""The settings with which servers are launched, on a server that has them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.query.v1 import WorkflowQuery
from temporalio.api.workflowservice.v1 import QueryWorkflowRequest

from perdure.protocol.names import STATUS
from perdure.testing import ScriptedModel, asks, call, says
from perdure.testing.script import Script

from ...support.agents import scripted_agent
from ...support.stage import Stage
from ...support.waiting import wait_for


async def test_questions_of_many_readers_wait_together_for_a_workflow_task(
    stage: Stage, scripted: Callable[[Script], ScriptedModel]
) -> None:
    model = scripted([asks(call("ask_user", question="Which?")), says("Tea it is.")])
    agent = scripted_agent(model, [{"name": "ask_user", "kind": "builtin"}])
    run = await stage.start(agent)
    async with stage.worker():

        async def is_asked() -> bool:
            return bool((await run.status()).pending_approvals)

        await wait_for(is_asked)
    await run.steer("Be quick")  # A workflow task, which no worker takes yet.
    asked = QueryWorkflowRequest(
        namespace=stage.client.namespace,
        execution=WorkflowExecution(workflow_id=run.id),
        query=WorkflowQuery(query_type=STATUS),
    )
    asking = [
        asyncio.create_task(stage.client.workflow_service.query_workflow(asked)) for _ in range(10)
    ]
    done, _ = await asyncio.wait(asking, timeout=0.5)
    assert not done, "where the server refuses one, the SDK asks again a second later"
    async with stage.worker():
        for each in await asyncio.gather(*asking):
            assert each.query_result.payloads
        (waiting,) = (await run.status()).pending_approvals
        await run.answer(waiting.call_id, "tea", digest=waiting.digest)
        assert (await run.result()).output == "Tea it is."
