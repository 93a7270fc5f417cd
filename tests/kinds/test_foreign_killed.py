"""Workers of both sides are killed in the middle of a call."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from temporalio.client import Client

from perdure.client import get_run

from ..support.foreign_tools import Scripted, activity, answer_of, started, workflow
from ..support.stage import Stage
from ..support.typescript_worker import TypeScript
from ..support.unknown_outcomes import NEEDS_APPROVAL
from ..support.waiting import wait_for
from ..support.worker_process import WorkerJob
from ..support.workers import Nursery


async def lines(log: Path) -> list[str]:
    return log.read_text().split() if log.exists() else []


async def test_an_activity_whose_worker_is_killed_is_not_repeated(
    stage: Stage, scripted: Scripted, typescript: TypeScript, address: str, tmp_path: Path
) -> None:
    log, queue = tmp_path / "log", f"{stage.task_queue}-abroad"
    slow = activity(
        "slow",
        queue,
        "log:string! seconds:float!",
        heartbeatTimeout="500ms",
        perdure={"retries": 2},
    )
    async with stage.worker(), typescript.worker(address, queue) as process:
        run = await started(stage, scripted, slow, log=str(log), seconds=60)
        await wait_for(lambda: lines(log))
        process.kill()
        result = await asyncio.wait_for(run.result(), 20)
    told = answer_of(result.messages)
    assert told == f"Error: Tool 'slow' failed: its worker was lost while it ran{NEEDS_APPROVAL}"
    assert await lines(log) == ["started"]


@pytest.mark.trial
async def test_a_workflow_whose_worker_is_killed_goes_on_with_the_next(
    stage: Stage, scripted: Scripted, typescript: TypeScript, address: str, tmp_path: Path
) -> None:
    log, queue = tmp_path / "log", f"{stage.task_queue}-abroad"
    guarded = workflow("guarded", queue, "log:string! seconds:float!")
    async with stage.worker():
        async with typescript.worker(address, queue) as process:
            run = await started(stage, scripted, guarded, log=str(log), seconds=1)
            await wait_for(lambda: lines(log))
            process.kill()
        async with typescript.worker(address, queue):
            result = await asyncio.wait_for(run.result(), 20)
    assert answer_of(result.messages) == "done"
    assert await lines(log) == ["started", "started", "finished"]


@pytest.mark.trial
@pytest.mark.parametrize("kind", [activity, workflow])
async def test_a_worker_of_perdure_is_killed_and_the_call_goes_on(
    stage: Stage,
    client: Client,
    scripted: Scripted,
    typescript: TypeScript,
    address: str,
    tmp_path: Path,
    kind: object,
) -> None:
    log, queue = tmp_path / "log", f"{stage.task_queue}-abroad"
    parameters = "log:string! seconds:float!"
    tool = (
        activity("slow", queue, parameters)
        if kind is activity
        else workflow("guarded", queue, parameters)
    )
    async with Nursery() as nursery, typescript.worker(address, queue):
        first = await nursery.start(
            WorkerJob(address=address, task_queue=stage.task_queue, folder=str(tmp_path))
        )
        run = await started(stage, scripted, tool, log=str(log), seconds=2)
        await wait_for(lambda: lines(log))
        first.kill()
        async with stage.worker():
            result = await asyncio.wait_for(get_run(client, run.id).result(), 40)
    assert answer_of(result.messages) == "done"
    assert await lines(log) == ["started", "finished"], "it was executed once"
