"""The status of a run is a search attribute: one event for a run that never waits, none where it is
not registered.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from temporalio.api.enums.v1 import EventType
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client

from perdure import run_input
from perdure.client import RunHandle, get_run
from perdure.client.connection import register_search_attributes
from perdure.json_types import JsonObject
from perdure.protocol.names import WORKFLOW
from perdure.protocol.search_attributes import ALL
from perdure.testing import asks, call, says
from perdure.tools import tool

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage
from ..support.waiting import wait_for


@tool
def shout(text: str = "") -> str:
    """Shout."""
    return text.upper()


@tool(needs_approval=True)
def delete(text: str = "") -> str:
    """Delete."""
    return "deleted"


async def upserts(client: Client, run: RunHandle) -> int:
    history = await client.get_workflow_handle(run.id).fetch_history()
    kinds = Counter(event.event_type for event in history.events)
    return kinds[EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES]


async def test_a_run_that_never_waits_writes_its_status_once(
    stage: Stage, scripted: Scripted
) -> None:
    rounds = [asks(call("shout", f"c{number}")) for number in range(5)]
    async with stage.worker([shout]):
        run = await stage.start(scripted_agent(scripted([*rounds, says("done")]), ["shout"]))
        await run.result()
    assert await upserts(stage.client, run) == 1


async def test_parallel_calls_wait_as_one(stage: Stage, scripted: Scripted) -> None:
    calls = [call("delete", f"c{number}") for number in range(4)]
    async with stage.worker([delete]):
        model = scripted([asks(*calls), says("done")])
        run = await stage.start(scripted_agent(model, ["delete"]), parallel_tool_calls=True)
        await wait_for(lambda: _waits(run, 4))
        for each in calls:
            await run.approve(each.id)
        await run.result()
    assert await upserts(stage.client, run) == 3, "waiting, running, done"


async def _waits(run: RunHandle, count: int) -> bool:
    return len((await run.status()).pending_approvals) == count


async def test_a_run_that_another_sdk_started_writes_none(stage: Stage, scripted: Scripted) -> None:
    argument: JsonObject = run_input(scripted_agent(scripted([says("done")])), messages=[])
    async with stage.worker():
        await stage.client.execute_workflow(
            WORKFLOW, argument, id=stage.task_queue, task_queue=stage.task_queue
        )
    run = get_run(stage.client, stage.task_queue)
    assert await upserts(stage.client, run) == 0


async def test_a_namespace_that_does_not_know_the_attributes(
    stage: Stage, scripted: Scripted
) -> None:
    """It gets none of them; once an administrator has registered them, new connections use them."""
    name = stage.task_queue
    request = RegisterNamespaceRequest(namespace=name)
    request.workflow_execution_retention_period.FromTimedelta(timedelta(days=1))
    await stage.client.workflow_service.register_namespace(request, retry=True)
    address = stage.client.service_client.config.target_host

    async def connect() -> Client:
        return await Client.connect(
            address, namespace=name, data_converter=stage.client.data_converter
        )

    async def knows_none() -> bool:
        listed = await client.operator_service.list_search_attributes(
            ListSearchAttributesRequest(namespace=name), retry=True
        )
        return not listed.custom_attributes

    client = await connect()
    await wait_for(knows_none)
    elsewhere = Stage(client, stage.task_queue)
    async with elsewhere.worker([delete]):
        model = scripted([asks(call("delete")), says("done")])
        run = await elsewhere.start(scripted_agent(model, ["delete"]))
        await wait_for(lambda: _waits(run, 1))
        await run.approve("call_delete")
        assert (await run.result()).output == "done"
    assert await upserts(client, run) == 0
    await elsewhere.replay()
    assert await register_search_attributes(client)
    listed = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=name), retry=True
    )
    assert {key.name for key in ALL} <= set(listed.custom_attributes)
