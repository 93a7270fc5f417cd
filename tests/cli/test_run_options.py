"""An ended run goes on, and every option of a run can be typed."""

from __future__ import annotations

import json
import uuid

import pytest

from perdure.cli.given import option_name

from ..support.command_line import Cli

AGES = (
    "run",
    "ages.prompty",
    "--tools",
    "tools.py",
    "--scripted",
    "tools.py:script",
    "--input",
    "person=Ann",
)


@pytest.fixture
def run_id() -> str:
    return f"ages-{uuid.uuid4()}"


async def test_a_run_that_a_limit_ended_goes_on(cli: Cli, run_id: str) -> None:
    limited = await cli(*AGES, "--id", run_id, "--max-iterations", "1")
    assert limited.code == 1
    assert f'perdure fork {run_id} --max-iterations 2 --steer "go on"' in limited.stderr
    went_on = await cli("fork", run_id, "--max-iterations", "2", "--steer", "go on", "--json")
    assert went_on.code == 0, went_on.stderr
    said = json.loads(went_on.stdout)
    assert [message["role"] for message in said["messages"]][:5] == [
        "system",
        "user",
        "assistant",
        "tool",
        "user",
    ]
    assert said["output"] == "go on."


async def test_a_run_that_was_terminated_goes_on(cli: Cli, run_id: str) -> None:
    await cli(
        "run",
        "ages.prompty",
        "--input",
        "person=Ann",
        "--detach",
        "--id",
        run_id,
        "--task-queue",
        run_id,
    )
    from temporalio.client import Client

    client = await Client.connect(cli.environment["TEMPORAL_ADDRESS"])
    await client.get_workflow_handle(run_id).terminate()
    went_on = await cli(
        "fork", run_id, "--steer", "go on", "--tools", "tools.py", "--scripted", "tools.py:script"
    )
    assert (went_on.code, went_on.stdout) == (0, "go on is 50.\n"), went_on.stderr


async def test_what_is_typed_is_what_the_run_is_told(cli: Cli, run_id: str) -> None:
    typed = {
        "max_llm_retries": 5,
        "raw": True,
        "unknown_tools": "raise",
        "max_seconds": 60.5,
        "parallel_tool_calls": True,
    }
    words = []
    for field, value in typed.items():
        words += [option_name(field)] if value in (True, 1) else [option_name(field), str(value)]
    detached = ("--input", "person=Ann", "--detach", "--id", run_id, "--task-queue", run_id)
    assert (await cli("run", "ages.prompty", *detached, *words)).code == 0
    from perdure.client import connect
    from perdure.history.link import read_input

    client = await connect(cli.environment["TEMPORAL_ADDRESS"])
    description = await client.get_workflow_handle(run_id).describe()
    recorded = (await read_input(client, run_id, description.run_id)).options
    assert {field: getattr(recorded, field) for field in typed} == typed
    await client.get_workflow_handle(run_id).terminate()


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("--max-iterations", "0", "--max-iterations 0: input should be greater than or equal to 1"),
        ("--tool-timeout", "-1", "--tool-timeout -1.0: input should be greater than 0"),
        ("--on-limit", "happy", "Invalid value for '--on-limit': 'happy' is not one of"),
        ("--max-tool-calls", "x", "Invalid value for '--max-tool-calls'"),
    ],
)
async def test_a_value_that_cannot_be(cli: Cli, option: str, value: str, text: str) -> None:
    refused = await cli("run", "ages.prompty", "--input", "person=Ann", option, value)
    assert refused.code == 2
    assert text in refused.stderr
