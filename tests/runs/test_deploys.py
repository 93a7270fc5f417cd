"""Workers with versions: a run stays with its version, and goes on in the current one from the next
iteration on.
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueRequest,
    SetWorkerDeploymentCurrentVersionRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError

from perdure.activities.pollers import Version, pinned_version
from perdure.cli.doctor.runs import QueueState, of_queue
from perdure.cli.server_connection import CommandMemo
from perdure.cli.worker_inside import waiting_text
from perdure.client import RunHandle, session
from perdure.errors import ConfigurationError
from perdure.history.chain import read_links
from perdure.protocol.outcome import RunStatus
from perdure.testing import asks, call, says
from perdure.worker import create_worker

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage
from ..support.waiting import asked, wait_for

PAY = {"name": "pay", "kind": "function", "perdure": {"approval": "always", "idempotent": False}}


async def make_current(stage: Stage, deployment: str, build_id: str) -> None:
    service, namespace = stage.client.workflow_service, stage.client.namespace
    request = SetWorkerDeploymentCurrentVersionRequest(
        namespace=namespace, deployment_name=deployment, build_id=build_id
    )

    async def is_current() -> bool:
        try:
            await service.set_worker_deployment_current_version(request)
        except RPCError:
            return False  # no worker of the version has polled yet
        return True

    async def is_known() -> bool:
        """The server answers before the queue of the workflows knows of the change."""
        queue = TaskQueue(name=stage.task_queue)
        kind = TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW
        asked = DescribeTaskQueueRequest(
            namespace=namespace, task_queue=queue, task_queue_type=kind
        )
        known = (
            await service.describe_task_queue(asked)
        ).versioning_info.current_deployment_version
        return (known.deployment_name, known.build_id) == (deployment, build_id)

    await wait_for(is_current)
    await wait_for(is_known)


async def without_worker(run: RunHandle) -> RunStatus | None:
    status = await run.status()
    return status if status.pinned_to else None


async def test_a_run_goes_on_in_the_current_version_with_its_tools(
    stage: Stage, scripted: Scripted
) -> None:
    paid: list[Any] = []

    def in_euros(euros: float) -> str:
        paid.append(("one", euros))
        return "paid"

    def in_cents(cents: int) -> str:
        paid.append(("two", cents))
        return "paid"

    model = scripted(
        [asks(call("pay", euros=2.5)), asks(call("pay", "call_second", cents=99)), says("done")]
    )
    named = f"d{uuid.uuid4().hex}"
    one, two = ({"deployment": named, "build_id": build_id} for build_id in ("1", "2"))
    async with stage.worker({"pay": in_euros}, **one):
        await make_current(stage, named, "1")
        run = await stage.start(scripted_agent(model, [PAY]))
        await asked(run)
    async with stage.another_worker({"pay": in_cents}, **two):
        await make_current(stage, named, "2")
        await run.steer("be quick")
        status = await wait_for(lambda: without_worker(run))
        assert (status.queue_without_worker, status.pinned_to) == (stage.task_queue, f"{named}:1")
        text = waiting_text(run.id, stage.task_queue, CommandMemo(), pinned_to=status.pinned_to)
        assert f"--deployment {named} --build-id 1" in text
        assert f"temporal workflow update-options --workflow-id {run.id}" in text
        listed = [each async for each in stage.client.list_workflows(f"WorkflowId = '{run.id}'")]
        [finding] = of_queue(QueueState(stage.task_queue, listed), 70.0)
        assert (finding.id, finding.about["runs"]) == ("version-without-worker", [run.id])
        assert f"TemporalWorkerDeploymentVersion='{named}:1'" in finding.do
        async with stage.worker({"pay": in_euros}, **one):
            await run.approve("call_pay")
            await asked(run)
        await run.approve("call_second")
        assert (await run.result()).output == "done"
    assert paid == [("one", 2.5), ("two", 99)]
    links = [link async for link in read_links(stage.client, run.id)]
    assert len(links) == 2


def test_a_version_has_two_names(client: Client) -> None:
    for wrong in ({"deployment": "d"}, {"build_id": "1"}, {"deployment": "d:e", "build_id": "1"}):
        with pytest.raises(ConfigurationError, match="expected both"):
            create_worker(client, task_queue="q", **wrong)


async def test_a_session_goes_over_after_its_next_turn(stage: Stage, scripted: Scripted) -> None:
    model = scripted(lambda request: says(f"re: {request.messages[-1].text}"))
    named, id = f"d{uuid.uuid4().hex}", f"talk-{uuid.uuid4()}"
    talk = session(stage.client, scripted_agent(model), id, task_queue=stage.task_queue)
    async with stage.worker(deployment=named, build_id="1"):
        await make_current(stage, named, "1")
        assert (await (await talk.send("one")).result()).output == "re: one"
        async with stage.another_worker(deployment=named, build_id="2"):
            await make_current(stage, named, "2")
            assert (await (await talk.send("two")).result()).output == "re: two"
            assert (await (await talk.send("three")).result()).output == "re: three"
            described = await stage.client.get_workflow_handle(f"{id}/3").describe()
            assert pinned_version(described) == Version(named, "2")
            await talk.close()
