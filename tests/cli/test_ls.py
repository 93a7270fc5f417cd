"""`perdure ls` with filters, and the ids that a shell completes."""

from __future__ import annotations

import json
import re
import uuid
from datetime import timedelta

import pytest
from temporalio.client import Client

from perdure.agents import Agent
from perdure.cli.filters import Filters, query_problem
from perdure.cli.ls import describe_age
from perdure.cli.problems import Failure, UsageProblem
from perdure.client import start_run
from perdure.protocol.names import WORKFLOW

from ..support.agents import QUESTION, declared
from ..support.command_line import Cli
from ..support.waiting import wait_for


@pytest.fixture
async def run_id(client: Client) -> str:
    """A run that no worker takes up, on behalf of a tenant with a name that must be quoted."""
    agent = {
        "name": "o'brien & sons",
        "model": {"id": "m", "provider": "openai"},
        "tools": [declared("note")],
    }
    id = f"listed-{uuid.uuid4()}"
    await start_run(
        client, Agent.model_validate(agent), messages=QUESTION, id=id, task_queue=id, tenant="ac'me"
    )
    return id


async def found(client: Client, **filters: object) -> set[str]:
    return {run.id async for run in client.list_workflows(Filters(**filters).query())}  # type: ignore[arg-type]


async def test_filters_find_what_fits(client: Client, run_id: str) -> None:
    mine = {
        "agent": "o'brien & sons",
        "tenant": "ac'me",
        "where": f"WorkflowId = '{run_id}' OR WorkflowId = 'x'",
    }

    async def listed() -> bool:
        return await found(client, **mine) == {run_id}

    await wait_for(listed)
    assert await found(client, **mine, since="1h", older_than="0s", status="running") == {run_id}
    for other in (
        {"since": "0s"},
        {"older_than": "1h"},
        {"status": "waiting"},
        {"session": "none"},
        {"min_cost": 0.5},
    ):
        assert await found(client, **mine, **other) == set()
    assert await found(client, **{**mine, "tenant": "acme"}) == set()


async def test_what_has_just_failed_is_above_runs_that_have_been_open_for_longer(
    cli: Cli, client: Client, run_id: str
) -> None:
    first, last = f"{run_id}-open", f"{run_id}-failed"
    for id in (first, last):
        await client.start_workflow(WORKFLOW, {}, id=id, task_queue=run_id)
    await client.get_workflow_handle(last).terminate()
    where = f"TaskQueue = '{run_id}'"

    async def listed() -> bool:
        return (
            len(await found(client, where=where)) == 3
            and len(await found(client, where=where, status="running")) == 2
        )

    await wait_for(listed)
    for count in ("1", "3"):
        shown = await cli("ls", "--where", where, "-n", count, "--json")
        assert [row["id"] for row in json.loads(shown.stdout)] == [last, first, run_id][
            : int(count)
        ]


@pytest.mark.parametrize("age", ["soon", "3", "h", "-1h", "1 fortnight"])
def test_an_age_that_is_none(age: str) -> None:
    with pytest.raises(UsageProblem, match=re.escape(f"--since {age!r}: expected an age such as")):
        Filters(since=age).query()


def test_a_time_is_an_age_too() -> None:
    assert (
        Filters(since="2030-01-31T08:00+00:00")
        .query()
        .endswith("StartTime >= '2030-01-31T08:00:00+00:00'")
    )


def test_what_the_server_does_not_know_is_explained() -> None:
    unknown = query_problem(
        "invalid query: invalid search attribute: PerdureTenant", Filters(tenant="acme")
    )
    assert isinstance(unknown, Failure)
    assert "`perdure setup` registers it" in str(unknown)
    own = query_problem("invalid query: invalid search attribute: Nope", Filters(where="Nope = 3"))
    assert isinstance(own, UsageProblem)
    assert "--where 'Nope = 3'" in str(own)


def test_ages_are_in_their_largest_unit() -> None:
    ages = [
        timedelta(seconds=3),
        timedelta(seconds=42),
        timedelta(hours=2, minutes=59),
        timedelta(days=400),
    ]
    assert [describe_age(age.total_seconds()) for age in ages] == ["now", "42 s", "2 h", "400 d"]
