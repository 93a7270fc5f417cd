"""A person's approval of a tool call, given in another terminal."""

from __future__ import annotations

import uuid

import pytest

from .conftest import Cli, Started


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
    assert (late.code, late.stderr.count(f"run {run_id} has ended, so nothing waits there")) == (1, 1), late.stderr


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
