"""Versions of workers are rolled out under many runs, of which some wait, and a bad one is rolled
back.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from temporalio.api.deployment.v1 import WorkerDeploymentVersion
from temporalio.api.enums.v1 import EventType, VersionDrainageStatus
from temporalio.api.workflowservice.v1 import DescribeWorkerDeploymentVersionRequest
from temporalio.client import Client

from perdure.client import RunHandle
from perdure.history.chain import read_links
from perdure.json_types import JsonObject
from perdure.testing import asks, call, says
from perdure.worker import create_worker

from ..support.agents import Scripted, scripted_agent
from ..support.dev_server import DevServer
from ..support.stage import Stage, replay_runs
from ..support.waiting import asked, wait_for
from .test_deploys import PAY, make_current

NAME = "agents"
SOON = (
    'matching.wv.VersionDrainageStatusVisibilityGracePeriod="1s"',
    'matching.wv.VersionDrainageStatusRefreshInterval="1s"',
)
"""Dynamic configuration: when a server looks whether a version is drained; minutes else."""


class Rollout:
    """Versions 1, 2, … of workers, all of which stay; the tools of a version note it."""

    def __init__(self, server: DevServer, stack: AsyncExitStack) -> None:
        self.stage = Stage(server.client, "rollout")
        self.effects: list[tuple[str, str]] = []
        """What was done, by which version."""
        self._server, self._stack = server, stack

    async def deploy(self, version: str) -> None:
        """Start the version's worker, and make the version current."""

        def note(text: str) -> str:
            self.effects.append((text, version))
            return f"noted by {version}"

        client = await Client.connect(
            self._server.address, data_converter=self.stage.client.data_converter
        )
        worker = create_worker(
            client,
            task_queue=self.stage.task_queue,
            tools={"note": note, "pay": note},
            deployment=NAME,
            build_id=version,
        )
        await self._stack.enter_async_context(worker)
        await make_current(self.stage, NAME, version)

    async def is_drained(self, version: str) -> bool:
        request = DescribeWorkerDeploymentVersionRequest(
            namespace="default",
            deployment_version=WorkerDeploymentVersion(deployment_name=NAME, build_id=version),
        )
        described = await self.stage.client.workflow_service.describe_worker_deployment_version(
            request, retry=True
        )
        drained = VersionDrainageStatus.VERSION_DRAINAGE_STATUS_DRAINED
        return described.worker_deployment_version_info.drainage_info.status == drained


async def rolled_out(tmp_path: Path, scripted: Scripted, versions: int, runs_each: int) -> None:
    """The last but one version is bad: it is rolled back to the one before it, then the last one
    comes.
    """
    steps = 3
    script = [asks(call("note", f"call_{step}", text=f"{step}")) for step in range(steps)]
    quick, slow = (
        scripted([*script, says("done")]),
        scripted([asks(call("pay", text="pay")), *script, says("done")]),
    )
    for reply in script:
        reply.delay = 0.2
    async with DevServer(tmp_path / "db", *SOON) as server, AsyncExitStack() as stack:
        rollout, runs, waiting = Rollout(server, stack), list[RunHandle](), list[RunHandle]()
        for number in range(1, versions + 1):
            await rollout.deploy(str(number))
            for each in range(runs_each):
                is_waiting = each % 5 == 0
                agent = (
                    scripted_agent(slow, [PAY_TEXT, "note"])
                    if is_waiting
                    else scripted_agent(quick, ["note"])
                )
                run = await rollout.stage.start(agent, id=f"run-{number}-{each}")
                (waiting if is_waiting else runs).append(run)
            if number == versions - 1:
                await make_current(rollout.stage, NAME, str(versions - 2))
        for run in waiting:
            await asked(run)
            await run.approve("call_pay")
        results = await asyncio.gather(*(run.result() for run in [*runs, *waiting]))
        assert [result.output for result in results] == ["done"] * versions * runs_each
        done = Counter(text for text, _ in rollout.effects)
        assert done == {
            "pay": len(waiting),
            **{str(step): versions * runs_each for step in range(steps)},
        }
        for number in range(1, versions):
            await wait_for(
                lambda number=number: rollout.is_drained(str(number)), timeout=60, every=0.5
            )
        failed = 0
        await replay_runs(server.client, *(run.id for run in [*runs, *waiting]))
        for run in [*runs, *waiting]:
            async for link in read_links(server.client, run.id):
                failed += sum(
                    event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
                    for event in link.history
                )
        assert failed == 0
        moved = {version for text, version in rollout.effects if text != "pay"}
        assert str(versions) in moved


PAY_TEXT: JsonObject = {**PAY, "parameters": [{"name": "text", "kind": "string"}]}


async def test_three_versions(tmp_path: Path, scripted: Scripted) -> None:
    await rolled_out(tmp_path, scripted, versions=3, runs_each=5)


@pytest.mark.trial
async def test_ten_versions_under_a_hundred_runs(tmp_path: Path, scripted: Scripted) -> None:
    await rolled_out(tmp_path, scripted, versions=10, runs_each=10)
