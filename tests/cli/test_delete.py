"""`perdure delete` and `sweep`."""

from __future__ import annotations

import asyncio
import json
import signal
import uuid
from pathlib import Path

import pytest
from temporalio.client import Client

from perdure.agents import Agent
from perdure.cli.filters import Filters
from perdure.client import start_run
from perdure.client.embedded.state import read_state

from ..support.agents import QUESTION
from ..support.command_line import Cli
from ..support.waiting import wait_for

MARKER = "the-secret-of-the-heron"


@pytest.fixture
async def name(client: Client) -> str:
    """The name of an agent, and of a tenant, with two runs that no worker takes up."""
    name = f"delete-{uuid.uuid4()}"
    declared = Agent.model_validate({"name": name, "model": {"id": "m", "provider": "openai"}})
    for _ in range(2):
        await start_run(client, declared, messages=QUESTION, task_queue=name, tenant=name)

    async def are_listed() -> bool:
        return (await client.count_workflows(Filters(tenant=name).query())).count == 2

    await wait_for(are_listed)
    return name


async def test_it_asks_refuses_what_is_under_way_and_reports(cli: Cli, name: str) -> None:
    dry = await cli("delete", "--tenant", name, "--dry-run", "--json")
    ids = json.loads(dry.stdout)["ids"]
    assert (dry.code, len(ids)) == (0, 2)
    asked = await cli("delete", "--tenant", name)
    assert (asked.code, asked.stdout) == (2, "")
    assert "Delete 2 runs for good? Expected --yes" in asked.stderr
    refused = await cli("delete", "--tenant", name, "--yes", "--json")
    report = json.loads(refused.stdout)
    assert (refused.code, report["done"], {each["id"] for each in report["failed"]}) == (
        1,
        [],
        set(ids),
    )
    assert all(
        "is open: end it first (perdure cancel)" in each["error"] for each in report["failed"]
    )
    done = await cli("delete", *ids, "--force", "--yes", "--no-wait", "--json")
    report = json.loads(done.stdout)
    assert (done.code, set(report["done"]), report["histories"], report["failed"]) == (
        0,
        set(ids),
        2,
        [],
    )
    assert "does not reach logs, traces, exports, backups" in done.stderr


async def test_what_is_not_there(cli: Cli) -> None:
    again = await cli("delete", "no-such-run", "--yes")
    assert (again.code, again.stdout) == (0, "")
    assert "Nothing was left of no-such-run" in again.stderr
    assert "Deleted" not in again.stderr
    many = await cli("delete", "--agent", "a", "--at-most", "1", "no-such-run")
    assert (many.code, "exclude each other" in many.stderr) == (2, True)


async def test_a_sweep(cli: Cli, tmp_path: Path) -> None:
    missing = await cli("sweep")
    assert (
        missing.code,
        "there is no storage to sweep: set PERDURE_STORAGE" in missing.stderr,
    ) == (1, True)
    young = await cli("sweep", "--older-than", "10min")
    assert (young.code, "expected 1h at least" in young.stderr) == (2, True)
    storing = Cli({**cli.environment, "PERDURE_STORAGE": tmp_path.as_uri()})
    done = await storing("sweep", "--yes", "--json")
    assert (done.code, json.loads(done.stdout)["values"]) == (0, 0)
    away = Cli({**cli.environment, "PERDURE_STORAGE": (tmp_path / "away").as_uri()})
    unread = await away("sweep", "--yes")
    assert (unread.code, unread.stderr.splitlines()) == (1, [unread.stderr.strip()])
    assert (
        f"the storage {str(tmp_path / 'away')!r} is not there: expected the folder of the workers"
        in unread.stderr
    )
    await asyncio.gather(storing.close(), away.close())


@pytest.mark.trial
async def test_the_journal_of_the_embedded_server_that_the_environment_names(
    embedded: Cli, tmp_path: Path
) -> None:
    """A minute later, when the server has deleted it, neither the database nor its journal has what
    was said.
    """
    server = await embedded.start("server")
    await server.says("Temporal UI:")
    talker = (
        "run",
        "talker.prompty",
        "--tools",
        "talking.py",
        "--scripted",
        "talking.py:script",
        "--id",
        "talks",
    )
    assert (await embedded(*talker, "-i", f"said={MARKER}")).code == 0
    assert files_with_marker(tmp_path)
    state = read_state(tmp_path)
    assert state is not None
    named = Cli({**embedded.environment, "TEMPORAL_ADDRESS": state.address})
    done = await named("delete", "talks", "--yes", "--json")
    assert (done.code, json.loads(done.stdout)["pending"]) == (0, 0), done.stderr
    assert files_with_marker(tmp_path) == []
    await server.finish(signal.SIGINT)
    await named.close()


def files_with_marker(folder: Path) -> list[str]:
    return [
        path.name
        for path in folder.rglob("*")
        if path.is_file() and MARKER.encode() in path.read_bytes()
    ]
