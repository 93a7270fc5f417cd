"""`perdure ls --waiting` and `perdure status`: what runs wait for, and who is to take up their next
step.
"""

from __future__ import annotations

import asyncio
import json
import threading

import pytest
from temporalio.client import Client
from temporalio.common import SearchAttributePair, TypedSearchAttributes

from perdure.cli.server_connection import ServerConnection
from perdure.cli.worker_inside import mention_missing_worker
from perdure.protocol.names import WORKFLOW
from perdure.protocol.search_attributes import STATUS
from perdure.testing import asks, says
from perdure.tools import tool

from ..support.agents import Scripted, scripted_agent
from ..support.command_line import Cli
from ..support.stage import Stage
from ..support.waiting import asked, wait_for


@tool(needs_approval=True)
def pay(text: str) -> str:
    return f"paid {text}"


async def test_a_run_that_can_t_be_read_hides_no_other(
    cli: Cli, client: Client, stage: Stage, scripted: Scripted
) -> None:
    queue = stage.task_queue
    async with stage.worker([pay]):
        run = await stage.start(
            scripted_agent(scripted([asks("pay", text="x"), says("paid")]), ["pay"])
        )

        await asked(run)
        waiting = TypedSearchAttributes([SearchAttributePair(STATUS, "waiting")])
        strange = await client.start_workflow(
            *(WORKFLOW, {"agent": 7}),
            id=f"strange-{queue}",
            task_queue=f"no-{queue}",
            search_attributes=waiting,
        )
        where = f"WorkflowId IN ('{run.id}', '{strange.id}')"

        async def listed() -> bool:
            finished = await cli("ls", "--where", where, "--json")
            return len([row for row in json.loads(finished.stdout) if row["waiting"]]) == 2

        await wait_for(listed)
        lines = (await cli("ls", "--waiting", "--where", where)).stdout.splitlines()
        await run.cancel()
        await strange.terminate()
    [paying] = [line for line in lines if line.startswith(f"{run.id}  pay(")]
    shown = paying.partition(": perdure approve ")[2]
    assert shown
    assert f"  or perdure deny {shown}" in lines
    assert any(line.startswith(f"{strange.id}  can't be read: ") for line in lines)


async def test_a_queue_whose_workers_are_busy_is_told_from_one_without(
    cli: Cli, client: Client, stage: Stage, scripted: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    free = threading.Event()

    def wait(text: str) -> str:
        free.wait(60)
        return text

    agent = scripted_agent(
        scripted(lambda request: says("done") if request.step else asks("wait", text="x")), ["wait"]
    )
    async with stage.worker({"wait": wait}, max_concurrent_activities=1, tool_loop=None):
        runs = [await stage.start(agent) for _ in range(2)]

        async def busy() -> list[str]:
            found = await asyncio.gather(*(run.status() for run in runs))
            return [
                run.id for run, status in zip(runs, found, strict=True) if status.workers_are_busy
            ]

        try:
            [run_id] = await wait_for(busy)
            said = (await cli("status", run_id)).stdout
            told = await told_meanwhile(client, run_id, capsys)
        finally:
            free.set()
        for run in runs:
            await run.result()
    assert "have not taken up its next step yet: they are busy" in said
    assert told.count("they are busy, or ended a short while ago") == 1


async def test_where_only_a_gateway_decides_no_command_is_offered(
    cli: Cli, client: Client, stage: Stage, scripted: Scripted
) -> None:
    policy = {"approval": {"by": ["finance", "board"], "count": 2}}
    guarded = {"name": "pay", "kind": "function", "perdure": policy}
    async with stage.worker([pay]):
        run = await stage.start(
            scripted_agent(scripted([asks("pay", text="x"), says("paid")]), [guarded])
        )

        async def pending() -> str:
            return "".join(each.digest for each in (await run.status()).pending_approvals)

        digest = await wait_for(pending)
        assert digest

        async def is_listed() -> str:
            return (await cli("ls", "--waiting", "--where", f"WorkflowId = '{run.id}'")).stdout

        listed = await wait_for(is_listed)
        watching = await cli.start("watch", run.id)
        watched = "".join(
            [
                await watching.says("waits for approval"),
                await watching.says("only through a gateway"),
            ]
        )
        said = [(await cli(name, run.id)).stdout for name in ("status", "show")]
        await run.cancel()
        await watching.finish()
        refused = await cli("approve", run.id)
    for text in (*said, listed or "", watched):
        assert "may decide: finance or board, 2 people" in text.lower(), text
        assert f"only through a gateway: POST /perdure/runs/{run.id}/approve" in text
        assert digest in text
        assert "perdure approve" not in text
        assert "perdure deny" not in text
    assert refused.code == 1


async def told_meanwhile(client: Client, run_id: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What a command that is quiet, and one that is not, say of a run whose workers are busy."""
    session, told = ServerConnection(client, None), ""
    quiet = asyncio.create_task(mention_missing_worker(session, run_id, only_missing=True))
    loud = asyncio.create_task(mention_missing_worker(session, run_id))

    async def says() -> bool:
        nonlocal told
        told += capsys.readouterr().err
        return "they are busy" in told

    await wait_for(says)
    for task in (quiet, loud):
        task.cancel()
    await asyncio.wait([quiet, loud])
    return told + capsys.readouterr().err
