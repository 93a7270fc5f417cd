"""One call of each kind at once, in one run: the run is cancelled, or its worker is killed."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.client import WorkflowExecutionStatus
from temporalio.worker import Worker

from perdure import RunCancelled, load
from perdure.agents import Agent
from perdure.client import RunHandle
from perdure.json_types import JsonObject
from perdure.testing import asks, call, says
from perdure.testing.script import ScriptedReply, ScriptedRequest

from ..support import foreign_tools
from ..support.a2a_agents import RemoteAgent
from ..support.agents import Scripted
from ..support.families import calls, family_script, write_agent
from ..support.hosts import serving
from ..support.mcp_server import make_server
from ..support.mcp_stage import on_http
from ..support.openapi_service import Service
from ..support.openapi_service import served as served_api
from ..support.remote_weather import has_told, weather
from ..support.stage import Stage
from ..support.unknown_outcomes import NEEDS_APPROVAL
from ..support.waiting import wait_for
from ..support.worker_process import WorkerJob
from ..support.workers import Nursery, count

KINDS = ("pay", "wait", "slowGet", "slowPost", "weather", "dig", "Build", "clerk")


@workflow.defn(sandboxed=False)
class Build:
    """Waits until it may end."""

    def __init__(self) -> None:
        self.may_end = False

    @workflow.run
    async def run(self) -> str:
        await workflow.wait_condition(lambda: self.may_end)
        return "built"

    @workflow.signal
    def end(self) -> None:
        self.may_end = True


class FarEnds:
    """One of each kind, each of which works until it is released."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        self.stage = stage
        self.folder = folder
        self.queue = f"{stage.task_queue}-others"
        self.service = Service()
        self.office = RemoteAgent()
        self.begun: Counter[str] = Counter()
        self.cancelled: set[str] = set()
        self.may_end = threading.Event()

    @activity.defn(name="dig")
    async def dig(self) -> str:
        self.begun["dig"] += 1
        try:
            while not self.may_end.is_set():
                activity.heartbeat()
                await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            self.cancelled.add("dig")
            raise
        return "dug"

    async def pay(self) -> str:
        self.begun["pay"] += 1
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cancelled.add("pay")
            raise
        return "paid"

    @property
    def building(self) -> Any:
        return self.stage.client.get_workflow_handle(f"build-{self.queue}")

    def _clerk(self, request: ScriptedRequest) -> ScriptedReply:
        self.begun["clerk"] += 1
        self.may_end.wait(60)
        return says("read")

    def agent(self, scripted: Scripted, tools: list[JsonObject]) -> Agent:
        arguments = {"wait": {"text": str(self.folder)}, "weather": {"message": "hold"}}
        asked = [call(kind, f"c_{kind}", **arguments.get(kind, {})) for kind in KINDS]
        model = scripted(
            family_script({"chief": [asks(*asked), says("done")], "clerk": self._clerk})
        )
        write_agent(self.folder, "clerk.prompty", model)
        chief = write_agent(
            self.folder, "chief.prompty", model, tools=[*tools, calls("clerk.prompty")]
        )
        return load(chief)

    @asynccontextmanager
    async def tools(self) -> AsyncIterator[list[JsonObject]]:
        others = Worker(
            self.stage.client, task_queue=self.queue, activities=[self.dig], workflows=[Build]
        )
        with (
            served_api(self.service.app) as self.service.url,
            serving(make_server().streamable_http_app()) as web,
        ):
            async with self.office.served() as office, others:
                yield [
                    {
                        "name": "pay",
                        "kind": "function",
                        "parameters": [],
                        "perdure": {"idempotent": False},
                    },
                    on_http(f"{web}/mcp", allowedTools=["wait"]),
                    {
                        "name": "api",
                        "kind": "openapi",
                        "specification": self.service.specification,
                        "options": {"operations": ["slowGet", "slowPost"]},
                    },
                    weather(office),
                    foreign_tools.activity("dig", self.queue, heartbeatTimeout="5s"),
                    foreign_tools.workflow("Build", self.queue, id=f"build-{self.queue}"),
                ]
                self.may_end.set()

    async def have_begun(self, run: RunHandle) -> bool:
        """Return whether all have, but for `pay`."""
        try:
            await self.building.describe()
        except Exception:
            return False
        return (
            (self.folder / "began").exists()
            and {"GET /slow", "POST /slow"} <= self.service.calls.keys()
            and {"dig", "clerk"} <= self.begun.keys()
            and await has_told(self.stage.client, run)
        )


async def test_a_cancelled_run_ends_what_it_has_begun_anywhere(
    stage: Stage, scripted: Scripted, tmp_path: Path
) -> None:
    ends = FarEnds(stage, tmp_path)
    async with ends.tools() as tools, stage.worker({"pay": ends.pay}):
        agent = ends.agent(scripted, tools)
        run = await stage.start(agent, parallel_tool_calls=True, cancel_grace=0)
        await wait_for(lambda: ends.have_begun(run))
        await run.cancel()
        with pytest.raises(RunCancelled) as caught:
            await asyncio.wait_for(run.result(), 20)

        async def have_heard() -> bool:
            return (
                ends.cancelled == {"pay", "dig"}
                and (tmp_path / "cancelled").exists()
                and ends.service.aborted == {"GET": 1, "POST": 1}
                and bool(ends.office.cancelled)
            )

        await wait_for(have_heard)
        clerk = stage.client.get_workflow_handle(f"{run.id}/1-{KINDS.index('clerk')}")
        for child in (ends.building, clerk):
            assert (await child.describe()).status == WorkflowExecutionStatus.CANCELED
    statuses = [
        message.metadata["status"] for message in caught.value.messages if message.role == "tool"
    ]
    assert statuses == ["cancelled"] * len(KINDS)


async def test_a_killed_worker_s_calls_go_on_are_repeated_or_have_an_unknown_outcome(
    stage: Stage, scripted: Scripted, address: str, tmp_path: Path
) -> None:
    ends = FarEnds(stage, tmp_path)
    job = WorkerJob(address=address, task_queue=stage.task_queue, folder=str(tmp_path))
    id = stage.task_queue.replace("test-", "run-0-")
    (tmp_path / id).mkdir()
    (tmp_path / id / "held-c_pay").touch()
    async with ends.tools() as tools, Nursery() as nursery:
        worker = await nursery.start(job)
        run = await stage.start(ends.agent(scripted, tools), id=id, parallel_tool_calls=True)
        await wait_for(lambda: ends.have_begun(run), timeout=60)
        worker.kill()
        ends.may_end.set()
        ends.service.release.set()
        ends.office.released.set()
        (tmp_path / "go").touch()
        await ends.building.signal(Build.end)
        await nursery.start(job)
        result = await asyncio.wait_for(run.result(), 60)
    lost = "Error: Tool '{}' failed: its worker was lost while it ran" + NEEDS_APPROVAL
    told = {
        message.metadata["tool_call_id"].removeprefix("c_"): message.text
        for message in result.messages
        if message.role == "tool"
    }
    assert told == {
        "pay": lost.format("pay"),
        "wait": lost.format("wait"),
        "slowGet": '{"done":"GET"}',
        "slowPost": lost.format("slowPost"),
        "weather": "It rained all the while.",
        "dig": "dug",
        "Build": "built",
        "clerk": "read",
    }
    assert count(tmp_path / id, "start") == {"c_pay": 1}
    assert (tmp_path / "began").read_text().count("\n") == 1
    assert (ends.service.calls["GET /slow"], ends.service.calls["POST /slow"]) == (2, 1)
    assert (len(ends.office.executions), ends.begun["dig"]) == (1, 1)
