"""A worker comes back with another function under a tool's name, while a run waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perdure.cli.server_connection import ServerConnection
from perdure.cli.show import in_lines, summary
from perdure.client import RunHandle
from perdure.errors import RunCancelled
from perdure.testing import asks, call, says
from perdure.tools import register_tool

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage
from ..support.waiting import asked, wait_for

PAY = {"name": "pay", "kind": "function", "perdure": {"approval": "always", "idempotent": False}}
paid: list[Any] = []


def as_it_was(claim: str, euros: float) -> str:
    paid.append((claim, euros))
    return "paid"


def with_cents(claim: str, cents: int) -> str:
    paid.append((claim, cents / 100))
    return "paid"


def with_other_code(claim: str, euros: float) -> str:
    """Pay, and say so."""
    paid.append((claim, euros, "other"))
    return "paid"


@pytest.fixture(autouse=True)
def _nothing_paid() -> None:
    paid.clear()


async def approved_elsewhere(
    stage: Stage, scripted: Scripted, now: Callable[..., Any], **options: Any
) -> RunHandle:
    """A run whose call waits while its worker is there, and is approved when another one has
    come.
    """
    model = scripted([asks(call("pay", claim="c7", euros=12.5)), says("done")])
    async with stage.worker({"pay": as_it_was}):
        run = await stage.start(scripted_agent(model, [PAY]), **options)
        await asked(run)
    async with stage.worker({"pay": now}):
        await run.approve("call_pay")
        await wait_for(lambda: goes_on(run))
    return run


async def goes_on(run: RunHandle) -> bool:
    status = await run.status()
    return status.missing is not None or status.status in ("done", "held")


async def test_an_approved_call_waits_for_a_function_that_takes_it(
    stage: Stage, scripted: Scripted
) -> None:
    run = await approved_elsewhere(stage, scripted, with_cents)
    async with stage.worker({"pay": with_cents}), stage.another_worker({"pay": as_it_was}):
        missing = (await run.status()).missing
        assert missing is not None
        assert missing.what == ["tool pay with the arguments that it took when the run began"]
        assert (await run.result()).output == "done"
    assert paid == [("c7", 12.5)]


async def test_without_one_the_run_is_held_and_says_what_has_changed(
    stage: Stage, scripted: Scripted
) -> None:
    run = await approved_elsewhere(stage, scripted, with_cents, missing_tool_grace=0.0)
    await wait_for(lambda: is_held(run))
    [held] = (await run.status()).held
    assert (held.reason, paid) == ("tool", [])
    assert held.why == (
        "The function of tool 'pay' takes other arguments here than when the run began. Then it "
        "was pay(claim: string, euros: float), here it is pay(claim: string, cents: integer) in "
        f"{__name__}. Start a worker with a function that takes those arguments"
    )
    async with stage.worker({"pay": as_it_was}):
        await run.go_on()
        assert (await run.result()).output == "done"
    assert paid == [("c7", 12.5)]


async def test_a_call_that_no_worker_has_begun_with_is_shown_as_never_executed(
    stage: Stage, scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    run = await approved_elsewhere(stage, scripted, with_cents, missing_tool_grace=1.0)
    async with stage.worker({"pay": with_cents}):
        await wait_for(lambda: is_held(run))
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result()
    lines = list(in_lines(await summary(ServerConnection(stage.client, None), run)))
    assert paid == []
    assert '✗ pay(claim="c7", euros=12.5) never executed' in lines[-1]
    assert "attempt" not in lines[-1]


async def test_a_function_that_takes_another_s_place_in_a_running_worker_is_compared_too(
    stage: Stage, scripted: Scripted
) -> None:
    """As where a notebook's cell is executed again: what fitted before says nothing of what came in
    its place.
    """
    calls = [asks(call("pay", f"call_{n}", claim=f"c{n}", euros=n)) for n in (1, 2)]
    model = scripted([*calls, says("done")])
    register_tool("pay", as_it_was)
    async with stage.worker():
        run = await stage.start(scripted_agent(model, [PAY]), missing_tool_grace=0.0)
        await asked(run)
        await run.approve("call_1")
        await wait_for(lambda: waits_for(run, "call_2"))
        register_tool("pay", with_cents)
        await run.approve("call_2")
        await wait_for(lambda: is_held(run))
        assert paid == [("c1", 1)]
        register_tool("pay", with_other_code)
        await run.go_on()
        assert (await run.result()).output == "done"
    assert paid == [("c1", 1), ("c2", 2, "other")]


async def waits_for(run: RunHandle, call_id: str) -> bool:
    return any(each.call_id == call_id for each in (await run.status()).pending_approvals)


async def is_held(run: RunHandle) -> bool:
    return (await run.status()).status == "held"
