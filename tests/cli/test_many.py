"""Commands that do something with many runs, which filters find."""

from __future__ import annotations

import json
import uuid

import pytest
from temporalio.client import Client

from perdure.agents import Agent
from perdure.cli.filters import Filters
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


async def test_many_are_cancelled_after_a_question(cli: Cli, client: Client, agent: str) -> None:
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


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["cancel"], "expected the id of a run, or filters"),
        (["cancel", "x", "--agent", "a"], "ids and filters exclude each other"),
        (["go-on"], "expected the id of a run, or filters"),
    ],
)
async def test_a_selection_that_is_none(cli: Cli, arguments: list[str], problem: str) -> None:
    finished = await cli(*arguments)
    assert (finished.code, finished.stdout) == (2, "")
    assert problem in finished.stderr
