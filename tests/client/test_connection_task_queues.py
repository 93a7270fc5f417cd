"""A run that nobody can take says so, at any age, and names the queue."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta

from perdure.client import get_run
from perdure.client.connection import has_waited
from perdure.testing import asks, call, says

from ..support.agents import Scripted, scripted_agent
from ..support.command_line import Cli
from ..support.gates import Gate
from ..support.stage import Stage
from ..support.waiting import wait_for


async def test_a_run_without_a_worker_names_its_queue(
    stage: Stage, scripted: Scripted, cli: Cli
) -> None:
    """One whose worker is gone, and one that no worker has ever seen: to the latter the queue is
    new.
    """
    gate, nobody = Gate(), Stage(stage.client, f"{stage.task_queue}-nobody")
    model = scripted([asks(call("gate")), says("done")])
    old = await stage.start(scripted_agent(model, ["gate"]))
    fresh = await nobody.start(scripted_agent(model, ["gate"]))
    async with stage.worker({"gate": gate}, graceful_shutdown_timeout=timedelta(0)):
        await gate.reached.wait()
    watched = await cli.start("result", "--follow", old.id)
    for run in (fresh, old):
        await wait_for(lambda id=run.id: waits(stage, id))  # type: ignore[misc]
    of_old, of_fresh, shown, listed, _ = await asyncio.gather(
        get_run(stage.client, old.id).status(),
        get_run(stage.client, fresh.id).status(),
        cli("status", fresh.id),
        cli("ls", "--json", "--limit", "10"),
        watched.says(f"on the task queue {stage.task_queue!r}"),
    )
    assert (of_old.queue_without_worker, of_fresh.queue_without_worker) == (
        stage.task_queue,
        nobody.task_queue,
    )
    assert f"a worker on the task queue '{nobody.task_queue}' is missing" in shown.stdout
    row = next(row for row in json.loads(listed.stdout) if row["id"] == fresh.id)
    assert row["queueWithoutWorker"] == nobody.task_queue
    gate.open.set()
    async with stage.worker({"gate": gate}), nobody.worker({"gate": gate}):
        for run in (fresh, old):
            assert (await run.result()).output == "done"
            assert (await run.status()).queue_without_worker is None
    assert (await watched.finish()).stdout == "done\n"


async def waits(stage: Stage, id: str) -> bool:
    return has_waited(await stage.client.get_workflow_handle(id).describe())
