"""A run whose worker is gone is found again, and goes on with the same tools."""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from temporalio.client import Client

from perdure.client import get_run
from perdure.errors import RunNotFound
from perdure.testing import ScriptedModel, asks, call, says

from ..support.command_line import AGENT, Cli
from ..support.waiting import wait_for

INVOKING = """
import sys
from paying import pay
from perdure import invoke_agent, load
agent = load("pay.prompty")
agent.model.connection = {"kind": "anonymous", "endpoint": sys.argv[2]}
invoke_agent(agent.model_validate(agent.model_dump(by_alias=True)), tools=[pay], id=sys.argv[1])
"""


@pytest.fixture
def run_id() -> str:
    return f"pay-{uuid.uuid4()}"


@pytest.fixture
async def elsewhere(cli: Cli, tmp_path: Path) -> AsyncIterator[Cli]:
    """Commands that are typed in another folder."""
    commands = Cli(cli.environment, tmp_path)
    yield commands
    await commands.close()


async def test_a_killed_command_is_resumed(
    cli: Cli, elsewhere: Cli, client: Client, run_id: str
) -> None:
    killed = await cli.start(
        "run",
        "pay.prompty",
        *("--tools", "paying.py", "--scripted", "paying.py:script"),
        "--id",
        run_id,
    )
    await killed.says("waits for approval")
    killed.process.kill()
    await killed.process.wait()
    memo = await (await client.get_workflow_handle(run_id).describe()).memo()
    assert memo["perdure"] == {
        "folder": str(AGENT),
        "tools": ["paying.py"],
        "scripted": "paying.py:script",
        "taskQueue": f"perdure-{run_id}",
    }
    refused = await elsewhere("resume", run_id)
    assert (refused.code, f"  the code {AGENT}/paying.py\n" in refused.stderr) == (2, True)
    resumed = await elsewhere.start("resume", run_id, "--yes")
    await resumed.says("tools: pay")
    assert (await cli("approve", run_id)).code == 0
    finished = await resumed.finish()
    assert (finished.code, finished.stdout) == (0, "paid 7\n"), finished.stderr


async def test_a_killed_invoke_agent_is_resumed(
    cli: Cli, elsewhere: Cli, client: Client, run_id: str
) -> None:
    with ScriptedModel([asks(call("pay", amount=7)), says("done")]) as model:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", INVOKING, run_id, model.openai_endpoint),
            cwd=AGENT,
            env=cli.environment,
        )

        async def waits() -> bool:
            with suppress(RunNotFound):
                return (await get_run(client, run_id).status()).status == "waiting_for_approval"
            return False

        await wait_for(waits)
        listed, shown = await asyncio.gather(
            cli("ls", "--json", "--limit", "1000"), cli("status", run_id)
        )
        assert run_id in [row["id"] for row in json.loads(listed.stdout)]
        assert "waiting" in shown.stdout
        process.kill()
        await process.wait()
        refused = await elsewhere("resume", run_id)
        assert (refused.code, refused.stdout) == (2, "")
        assert (
            f"needs pay, expected their functions. Type: perdure resume {run_id} --tools"
            in refused.stderr
        )
        resumed = await elsewhere.start("resume", run_id, "--tools", str(AGENT / "paying.py"))
        await resumed.says("tools: pay")
        assert (await cli("approve", run_id)).code == 0
        assert (await resumed.finish()).stdout == "done\n"


async def test_an_ended_run_is_not_resumed(cli: Cli, run_id: str) -> None:
    scripted = ("--tools", "tools.py", "--scripted", "tools.py:script", "--input", "person=Ann")
    assert (await cli("run", "ages.prompty", *scripted, "--id", run_id)).code == 0
    refused = await cli("resume", run_id)
    assert refused.code == 1
    assert f"perdure fork {run_id} --steer" in refused.stderr


async def test_tools_that_have_moved(cli: Cli, elsewhere: Cli, tmp_path: Path, run_id: str) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    (folder / "tools.py").write_text((AGENT / "paying.py").read_text())
    detached = ("--tools", "tools.py", "--detach", "--id", run_id)
    started = await Cli(cli.environment, folder)("run", str(AGENT / "pay.prompty"), *detached)
    assert started.code == 0, started.stderr
    folder.rename(tmp_path / "elsewhere")
    refused = await elsewhere("resume", run_id)
    assert refused.code == 2
    assert f"started in {str(folder)!r}, which does not exist" in refused.stderr
    assert "--tools" in refused.stderr
    assert (await cli("cancel", run_id)).code == 0


async def test_whoever_looks_for_a_run_without_a_worker_hears_of_resume(
    cli: Cli, run_id: str
) -> None:
    queue = f"nobody-{run_id}"
    detached = await cli(
        "run",
        "pay.prompty",
        *("--tools", "paying.py", "--detach", "--id", run_id, "--task-queue", queue),
    )
    both = f"perdure resume {run_id}, or perdure worker --task-queue {queue} --tools paying.py"
    assert both in detached.stderr
    watched = await cli.start("result", "--follow", run_id)
    shown, listed, as_json, _ = await asyncio.gather(
        *(cli("status", run_id), cli("ls"), cli("ls", "--json")),
        watched.says(f"perdure resume {run_id} (with its own tools)"),
    )
    assert (
        f"perdure resume {run_id} (with its own tools), or perdure worker --task-queue {queue}"
        in shown.stdout
    )
    assert f"no worker on {queue!r}: perdure resume {run_id} " in listed.stdout
    row = next(row for row in json.loads(as_json.stdout) if row["id"] == run_id)
    assert row["resume"] == f"perdure resume {run_id}"
    assert (await cli("cancel", run_id)).code == 0
    watched.process.terminate()
    await watched.finish()
