"""A person's approval of a tool call, given in another terminal."""

from __future__ import annotations

import shlex
import uuid

import pytest

from ..support.command_line import Cli, Started


@pytest.fixture
def run_id() -> str:
    return f"pay-{uuid.uuid4()}"


@pytest.fixture
async def waiting(cli: Cli, run_id: str) -> Started:
    """A run in the foreground whose tool call waits for approval."""
    arguments = ("--tools", "paying.py", "--scripted", "paying.py:script", "--id", run_id)
    run = await cli.start("run", "pay.prompty", *arguments)
    await run.says('pay({"amount": 7}) waits for approval')
    return run


async def test_approved(cli: Cli, run_id: str, waiting: Started) -> None:
    assert f"perdure approve {run_id} " in await waiting.says("perdure approve")
    assert (await cli("approve", run_id)).code == 0
    finished = await waiting.finish()
    assert (finished.code, finished.stdout) == (0, "paid 7\n")
    late = await cli("approve", run_id)
    assert (late.code, late.stderr.count(f"run {run_id} has ended, so nothing waits there")) == (
        1,
        1,
    ), late.stderr


async def test_approved_with_other_arguments(cli: Cli, run_id: str, waiting: Started) -> None:
    assert (await cli("approve", run_id, "--arguments", '{"amount": 5}')).code == 0
    edited = '[executed with arguments that a person edited: {"amount": 5}]'
    assert (await waiting.finish()).stdout == f"{edited}\npaid 5\n"


async def test_denied(cli: Cli, run_id: str, waiting: Started) -> None:
    assert (await cli("deny", run_id, "--reason", "too much")).code == 0
    assert "too much" in (await waiting.finish()).stdout


async def test_a_call_that_does_not_wait(cli: Cli, run_id: str, waiting: Started) -> None:
    refused = await cli("approve", run_id, "nothing")
    assert refused.code == 1
    assert 'pay({"amount": 7})' in refused.stderr


async def test_a_shown_command_counts_for_the_call_that_was_shown(cli: Cli, run_id: str) -> None:
    run = await cli.start(
        "run",
        "pay.prompty",
        "--tools",
        "paying.py",
        "--scripted",
        "paying.py:twice",
        "--id",
        run_id,
    )
    shown = shlex.split(await run.says("perdure approve"))
    assert shown[:4] == ["perdure", "approve", run_id, "c 1;x"]
    assert (await cli(*shown[1:])).code == 0
    await run.says("999999")
    pasted = (await run.says("perdure deny")).strip()
    denial = shlex.split(pasted)

    late = await cli(*shown[1:])  # A repetition succeeds, and changes nothing.
    assert "Approved an earlier call 'c 1;x'" in late.stderr
    for told in (
        await cli("status", run_id),
        await cli("ls", "--waiting"),
        await cli("show", run_id),
    ):
        lines = told.stdout.splitlines()
        [line] = [each for each in lines if run_id in each and "999999" in each]
        assert f"--digest {denial[denial.index('--digest') + 1]}" in line
        assert lines[lines.index(line) + 1].strip() == f"or {pasted}"
    assert (await cli(*denial[1:])).code == 0
    assert (await run.finish()).stdout == "Tool denied: denied by a person\n"
