"""A worker is killed while an agent runs that another one has called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.prompty.load import load
from perdure.protocol.outcome import RunStatus
from perdure.testing import ScriptedModel, asks, call, says
from perdure.testing.script import Script

from ..support.families import calls, family_script, write_agent
from ..support.stage import Stage
from ..support.waiting import wait_for
from ..support.worker_process import WorkerJob
from ..support.workers import Nursery, count

Scripted = Callable[[Script], ScriptedModel]
STEP = {"name": "step", "kind": "function", "parameters": [{"name": "text", "kind": "string"}]}


def family(scripted: Scripted, folder: Path, step: dict[str, object]) -> tuple[ScriptedModel, Path]:
    script = {
        "chief": [asks(call("clerk")), says("done")],
        "clerk": [asks(call("step")), says("stepped")],
    }
    model = scripted(family_script(script))
    write_agent(folder, "clerk.prompty", model, tools=[step])
    return model, write_agent(folder, "chief.prompty", model, tools=[calls("clerk.prompty")])


async def test_while_the_called_agent_waits_for_a_person(
    stage: Stage, scripted: Scripted, tmp_path: Path, address: str
) -> None:
    model, chief = family(scripted, tmp_path, {**STEP, "perdure": {"approval": "always"}})
    # Nothing is cached, so that Temporal does not wait for the dead worker to take its own runs up.
    options = {"max_cached_workflows": 0, "max_concurrent_workflow_task_polls": 1}
    job = WorkerJob(
        address=address, task_queue=stage.task_queue, folder=str(tmp_path), options=options
    )
    async with Nursery() as nursery:
        first = await nursery.start(job)
        run = await stage.start(load(chief))
        (tmp_path / run.id / "1-0").mkdir(parents=True)

        async def waiting() -> RunStatus | None:
            status = await run.status()
            return status if status.pending_approvals else None

        [pending] = (await wait_for(waiting)).pending_approvals
        first.kill()
        await nursery.start(job)
        assert pending.run_id is not None
        await run.called(pending.run_id).approve(pending.call_id)
        result = await run.result()
    assert result.output == "done"
    assert [each.body["model"] for each in model.requests] == ["chief", "clerk", "clerk", "chief"]
    assert count(tmp_path / run.id / "1-0", "start") == {"call_step": 1}


@pytest.mark.trial
@pytest.mark.parametrize("attempt", range(3))
async def test_while_a_tool_of_the_called_agent_runs(
    stage: Stage, scripted: Scripted, tmp_path: Path, address: str, attempt: int
) -> None:
    model, chief = family(scripted, tmp_path, STEP)
    job = WorkerJob(address=address, task_queue=stage.task_queue, folder=str(tmp_path))
    async with Nursery() as nursery:
        run_id = stage.task_queue.replace("test-", "run-0-")
        folder = tmp_path / run_id / "1-0"
        folder.mkdir(parents=True)
        (folder / "held-call_step").touch()
        first = await nursery.start(job)
        run = await stage.start(load(chief), id=run_id)

        async def begun() -> bool:
            return bool(count(folder, "start"))

        await wait_for(begun)
        first.kill()
        (folder / "held-call_step").unlink()
        await nursery.start(job)
        result = await run.result()
    assert result.output == "done"
    assert [each.body["model"] for each in model.requests] == ["chief", "clerk", "clerk", "chief"]
    assert count(folder, "end") == {"call_step": 1}
