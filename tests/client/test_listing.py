"""`list_runs`: the runs of a namespace, as a program lists them."""

from __future__ import annotations

from uuid import uuid4

import pytest
from temporalio.client import Client
from temporalio.service import RPCError

from perdure import agent, create_worker, list_runs, start_run
from perdure.testing import ScriptedModel, says
from tests.support.waiting import wait_for


async def test_runs_are_listed_newest_first(client: Client) -> None:
    queue = f"test-{uuid4()}"
    where = f"TaskQueue = '{queue}'"
    with ScriptedModel([says("One."), says("Two.")]) as model:
        clerk = agent("openai/gpt-5", name="clerk", connection={"endpoint": model.openai_endpoint})
        async with create_worker(client, task_queue=queue, registered_tools=False):
            ids = []
            for question in ("First?", "Second?"):
                run = await start_run(client, clerk, question, task_queue=queue, tenant="acme")
                await run.result()
                ids.append(run.id)
    open_run = await start_run(client, clerk, "Third?", task_queue=queue)

    async def all_are_listed() -> bool:
        found = [run async for run in list_runs(client, where=where)]
        return [run.status for run in found] == ["running", "done", "done"]

    await wait_for(all_are_listed)
    found = [
        run async for run in list_runs(client, where=f"{where} OR TaskQueue = 'none'", limit=2)
    ]
    assert [run.id for run in found] == [open_run.id, ids[1]]
    assert (found[1].agent, found[1].tenant, found[1].origin, found[1].task_queue) == (
        "clerk",
        "acme",
        "direct",
        queue,
    )
    assert found[0].ended is None
    assert found[1].ended is not None
    assert found[1].started < found[1].ended
    await open_run.cancel()
    with pytest.raises(RPCError):
        [run async for run in list_runs(client, where="nonsense")]
