"""A tool that ends every worker that starts it, beside calls that do nothing of the kind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.testing import ScriptedModel, asks, call, says
from perdure.testing.script import Script

from ..support.agents import scripted_agent
from ..support.mcp_stage import is_alive
from ..support.stage import Stage
from ..support.worker_process import WorkerJob
from ..support.workers import Nursery, count

Scripted = Callable[[Script], ScriptedModel]


@pytest.mark.trial
@pytest.mark.timeout(300)
async def test_only_the_guilty_call_fails(
    stage: Stage, scripted: Scripted, address: str, tmp_path: Path
) -> None:
    innocent = [call("step", f"step-{number}") for number in range(4)]
    model = scripted([asks(call("kill_worker", "guilty"), *innocent), says("done")])
    agent = scripted_agent(model, ["kill_worker", "step"])
    job = WorkerJob(address=address, task_queue=stage.task_queue, folder=str(tmp_path), linger=4.0)

    async def keep_one_worker(nursery: Nursery) -> None:
        while True:
            worker = await nursery.start(job)
            while is_alive(worker.pid):
                await asyncio.sleep(0.1)

    async with Nursery() as nursery:
        keeping = asyncio.create_task(keep_one_worker(nursery))
        run = await stage.start(agent, id=f"{stage.task_queue}-run", parallel_tool_calls=True)
        (tmp_path / run.id).mkdir()
        result = await asyncio.wait_for(run.result(), 240)
        keeping.cancel()
    texts = [message.text for message in result.messages if message.role == "tool"]
    assert "its worker was lost" in texts[0]
    assert texts[1:] == ["step  done"] * 4
    starts = count(tmp_path / run.id, "start")
    assert max(starts.values()) == 2, starts
    assert count(tmp_path / run.id, "start")["guilty"] == 2
