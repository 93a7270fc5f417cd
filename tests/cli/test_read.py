"""The commands about runs that were started before."""

from __future__ import annotations

import json
import signal
import uuid

import pytest

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


@pytest.fixture(scope="module")
async def done(cli: Cli) -> str:
    """The id of a run that has ended."""
    run_id = f"done-{uuid.uuid4()}"
    assert (await cli(*AGES, "--id", run_id)).code == 0
    return run_id


@pytest.fixture
async def waiting(cli: Cli) -> str:
    """The id of a run that no worker has taken up."""
    run_id = f"waiting-{uuid.uuid4()}"
    arguments = ("--input", "person=Ann", "--detach", "--id", run_id, "--task-queue", run_id)
    assert (await cli("run", "ages.prompty", *arguments)).code == 0
    return run_id


async def test_result(cli: Cli, done: str) -> None:
    finished = await cli("result", done)
    assert (finished.code, finished.stdout, finished.stderr) == (0, "Ann is 30.\n", "")


async def test_watch_from_now(cli: Cli, done: str) -> None:
    """Of a run that has ended, its last event."""
    from_now = await cli("watch", done, "--from-now", "--json")
    assert [json.loads(line)["type"] for line in from_now.stdout.splitlines()] == ["done"]
    shown = await cli("watch", done, "--from-now")
    assert (shown.code, shown.stdout, "look_up_age" in shown.stderr) == (0, "Ann is 30.\n", False)


async def test_result_following(cli: Cli, done: str) -> None:
    assert "look_up_age" in (await cli("result", done, "--follow")).stderr


async def test_the_result_of_a_tool_call(cli: Cli, done: str) -> None:
    [asked] = [
        event["call_id"]
        for event in map(json.loads, (await cli("events", done, "--json")).stdout.splitlines())
        if event["type"] == "tool_result"
    ]
    assert (await cli("result", done, "--call", asked)).stdout == "Ann is 30\n"
    whole = json.loads(
        (await cli("result", done, "--call", asked, "--iteration", "1", "--json")).stdout
    )
    assert (whole["parts"], whole["status"]) == (
        [{"kind": "text", "value": "Ann is 30"}],
        "success",
    )
    unknown = await cli("result", done, "--call", "none")
    assert unknown.code == 1
    assert "no tool call 'none' has a result in this run: there are " in unknown.stderr
    assert (await cli("result", done, "--iteration", "1")).code == 2


async def test_events(cli: Cli, done: str) -> None:
    finished = await cli("events", done)
    assert finished.code == 0
    lines = finished.stdout.splitlines()
    assert any(
        "tool_call_start" in line and 'look_up_age({"person": "Ann"})' in line for line in lines
    )
    assert "done" in lines[-1]


async def test_events_as_json(cli: Cli, done: str) -> None:
    events = [
        json.loads(line) for line in (await cli("events", done, "--json")).stdout.splitlines()
    ]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    later = [
        json.loads(line)
        for line in (await cli("events", done, "--json", "--after", "3")).stdout.splitlines()
    ]
    assert later == events[3:]


async def test_messages(cli: Cli, done: str) -> None:
    finished = await cli("messages", done)
    assert "[user] How old is Ann?" in finished.stdout
    assert '→ look_up_age({"person": "Ann"})' in finished.stdout
    said = json.loads((await cli("messages", done, "--json")).stdout)
    assert [message["role"] for message in said] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


async def test_status(cli: Cli, done: str) -> None:
    assert (await cli("status", done)).stdout.startswith("done, iteration 2, 2 model calls\n")


async def test_ls(cli: Cli, done: str) -> None:
    rows = json.loads((await cli("ls", "--json", "--limit", "100")).stdout)
    row = next(row for row in rows if row["id"] == done)
    assert (row["agent"], row["status"]) == ("ages", "completed")
    assert done not in (await cli("ls", "--status", "running", "--limit", "100")).stdout


async def test_an_ended_run_can_neither_be_steered_nor_cancelled(cli: Cli, done: str) -> None:
    for arguments in (("steer", done, "faster"), ("cancel", done)):
        finished = await cli(*arguments)
        assert finished.code == 1
        assert f"perdure result {done}" in finished.stderr


async def test_approving_where_nothing_waits(cli: Cli, done: str) -> None:
    finished = await cli("approve", done)
    assert finished.code == 1
    assert "has ended, so nothing waits there" in finished.stderr


async def test_cancel(cli: Cli, waiting: str) -> None:
    assert (await cli("cancel", waiting, "--reason", "enough")).code == 0
    worker = await cli.start("worker", "--tools", "tools.py", "--task-queue", waiting)
    result = await cli("result", waiting)
    assert result.code == 1
    assert f"Run {waiting} ended without a result (cancelled)" in result.stderr
    assert (await worker.finish(signal.SIGTERM)).code == 0


async def test_steer(cli: Cli, waiting: str) -> None:
    finished = await cli("steer", waiting, "and Bo?")
    assert finished.code == 0
    assert f"Sent to run {waiting}" in finished.stderr
