"""A run is started from anywhere: with all that Temporal offers, as a child, from a schedule."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from uuid import uuid4

import pytest
from temporalio.client import (
    Client,
    WorkflowExecution,
)
from temporalio.common import (
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.worker import Worker

from perdure import Agent, RunError, RunOptions, run_input
from perdure.client import get_run, start_run
from perdure.json_types import JsonObject
from perdure.protocol.search_attributes import AGENT
from perdure.testing import ScriptedModel, says

from ..support.agents import QUESTION, scripted_agent
from ..support.parents import Author, Parent
from ..support.stage import Stage
from ..support.waiting import wait_for


@pytest.fixture
def agent() -> Iterator[Agent]:
    with ScriptedModel([says("hello")]) as model:
        yield scripted_agent(model)


async def test_a_run_as_a_child(client: Client, stage: Stage, agent: Agent) -> None:
    own = f"own-{uuid4()}"
    async with stage.worker(), Worker(client, task_queue=own, workflows=[Parent, Author]):
        argument = run_input(agent, messages=QUESTION)
        answer = await client.execute_workflow(
            Parent.run, args=[argument, stage.task_queue], id=own, task_queue=own
        )
        child = get_run(client, f"{own}-child")
        assert (answer["output"], (await child.result()).output) == ("hello", "hello")
        assert (await child.events())[-1].type == "done"
        model = argument["agent"]["model"]
        made = await client.execute_workflow(
            Author.run, args=[model, stage.task_queue], id=f"{own}-author", task_queue=own
        )
        assert made["output"] == "hello"


async def test_what_start_run_sends_is_what_run_input_says(
    client: Client, stage: Stage, agent: Agent
) -> None:
    run = await stage.start(agent)
    async with stage.worker():
        await run.result()
    async for event in client.get_workflow_handle(run.id).fetch_history_events():
        payload = event.workflow_execution_started_event_attributes.input.payloads[0]
        break
    sent = json.loads(payload.data)
    said = run_input(agent, messages=QUESTION, options=RunOptions(retry_base_seconds=0.0))
    assert {**sent, "search_attributes": []} == said, (
        "only what the namespace knows is found out at the start"
    )


async def test_all_that_temporal_offers_for_a_start(
    client: Client, task_queue: str, agent: Agent
) -> None:
    id = f"offered-{uuid4()}"
    run = await start_run(
        client,
        agent,
        messages=QUESTION,
        task_queue=task_queue,
        id=id,
        tenant="acme",
        priority=1,
        search_attributes=TypedSearchAttributes([SearchAttributePair(AGENT, "another")]),
        memo={"ticket": 7},
        execution_timeout=1.0,
        id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
    )
    description = await client.get_workflow_handle(id).describe()
    info = description.raw_description.workflow_execution_info
    assert (info.priority.priority_key, info.priority.fairness_key) == (1, "acme")
    assert await description.memo() == {"agent": "tested", "title": "What is it?", "ticket": 7}
    again = {"messages": QUESTION, "task_queue": task_queue, "id": id}
    joined = await start_run(
        client, agent, id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING, **again
    )
    assert joined.id == run.id
    with pytest.raises(RunError) as ended:
        await run.result()
    assert ended.value.kind == "timed_out"
    with pytest.raises(WorkflowAlreadyStartedError):
        await start_run(
            client, agent, id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE, **again
        )
    assert isinstance(await _listed(client, id), WorkflowExecution)


async def _listed(client: Client, id: str) -> WorkflowExecution:
    async def found() -> WorkflowExecution | None:
        async for each in client.list_workflows(f"PerdureTenant = 'acme' AND WorkflowId = '{id}'"):
            return each
        return None

    return await wait_for(found)  # type: ignore[return-value]


@pytest.mark.parametrize("wrong", [{"priority": 9}, {"tenant": ""}, {"tenant": "x" * 65}])
async def test_a_start_that_cannot_be(client: Client, agent: Agent, wrong: JsonObject) -> None:
    with pytest.raises(ValueError, match="expected a"):
        await start_run(
            client, agent, messages=QUESTION, execution_timeout=timedelta(seconds=1), **wrong
        )
