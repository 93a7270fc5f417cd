"""Commands that do something with many runs, which filters find."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest
from temporalio.client import Client

from perdure.agents import Agent
from perdure.cli.completion import Filters
from perdure.client import start_run

from ..support.agents import QUESTION
from ..support.command_line import Cli
from ..support.waiting import wait_for

MANY = 3


@pytest.fixture
async def agent(client: Client) -> str:
    """The name of an agent with runs that no worker takes up."""
    name = f"many-{uuid.uuid4()}"
    declared = Agent.model_validate({"name": name, "model": {"id": "m", "provider": "openai"}})
    for _ in range(MANY):
        await start_run(client, declared, messages=QUESTION, task_queue=name)

    async def are_listed() -> bool:
        return (await client.count_workflows(Filters(agent=name).query())).count == MANY

    await wait_for(are_listed)
    return name


async def test_many_are_cancelled_after_a_question(cli: Cli, client: Client, agent: str, tmp_path: Path) -> None:
    dry = await cli("cancel", "--agent", agent, "--dry-run", "--json")
    ids = json.loads(dry.stdout)["ids"]
    assert (dry.code, len(ids)) == (0, MANY)
    asked = await cli("cancel", "--agent", agent)
    assert (asked.code, asked.stdout) == (2, "")
    assert f"Cancel {MANY} runs? Expected --yes" in asked.stderr
    done = await cli("cancel", "--agent", agent, "--older-than", "0s", "--yes", "--json")
    report = json.loads(done.stdout)
    assert (done.code, sorted(report["done"]), report["failed"]) == (0, sorted(ids), [])
    for id in ids:
        described = await client.get_workflow_handle(id).describe()
        assert described.raw_description.workflow_extended_info.cancel_requested

    folder = tmp_path / "runs"
    exported = await cli("export", "--agent", agent, "--output", str(folder))
    assert exported.code == 0, exported.stderr
    assert len(list(folder.iterdir())) == MANY
    sums = json.loads((await cli("ls", "--agent", agent, "--totals", "--json")).stdout)
    assert (sums["runs"], sums["byStatus"], sums["failed"]) == (MANY, {"running": MANY}, [])


async def test_each_that_fails_is_reported(cli: Cli, client: Client, agent: str) -> None:
    fork = await cli("fork", "--only-agent", agent, "--at", "7", "--yes", "--json")
    report = json.loads(fork.stdout)
    assert (fork.code, report["done"], len(report["failed"])) == (1, [], MANY)
    assert all("expected an iteration" in each["error"] for each in report["failed"]), report


async def test_the_same_command_forks_no_run_twice(cli: Cli, client: Client, agent: str) -> None:
    arguments = ("fork", "--only-agent", agent, "--steer", "Go on.", "--yes", "--json")
    for runs in (MANY, 2 * MANY):
        fork = await cli(*arguments)
        assert (fork.code, json.loads(fork.stdout)["count"]) == (0, runs), fork.stderr
        await wait_for(lambda: _are(client, agent, 2 * MANY))
    assert fork.stderr.count("is already forked, as") == MANY
    assert fork.stderr.count("is a fork that this command has made") == MANY
    assert (await cli(*arguments, "--again")).code == 0
    await wait_for(lambda: _are(client, agent, 4 * MANY))


async def _are(client: Client, agent: str, runs: int) -> bool:
    return (await client.count_workflows(Filters(agent=agent).query())).count == runs


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["cancel"], "expected the id of a run, or filters"),
        (["cancel", "x", "--agent", "a"], "ids and filters exclude each other"),
        (["steer", "x"], "expected the id of a run, or filters"),
        (["export", "--agent", "a"], "--output: expected a folder"),
        (["fork", "--at", "1", "--tenant", "t", "--tools", "x.py"], "expected no option that is for one"),
    ],
)
async def test_a_selection_that_is_none(cli: Cli, arguments: list[str], problem: str) -> None:
    finished = await cli(*arguments)
    assert (finished.code, finished.stdout) == (2, "")
    assert problem in finished.stderr
