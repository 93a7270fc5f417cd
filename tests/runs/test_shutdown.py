"""A worker that shuts down is not a user who cancels: what it was doing goes on elsewhere."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from perdure.cli.server_connection import ServerConnection
from perdure.cli.show import in_lines, summary
from perdure.guardrails import GuardrailResult, Guardrails
from perdure.messages import Message
from perdure.testing import asks, call, says
from perdure.tools import tool

from ..support.agents import Scripted, scripted_agent
from ..support.gates import Gate
from ..support.stage import Stage
from ..support.unknown_outcomes import NEEDS_APPROVAL

AT_ONCE = timedelta(milliseconds=100)


async def test_in_a_model_call(stage: Stage, scripted: Scripted) -> None:
    model = scripted([[says("too slow", delay=30), says("done")]])
    async with stage.worker(graceful_shutdown_timeout=AT_ONCE):
        run = await stage.start(scripted_agent(model))
        await asyncio.to_thread(model.wait_until, lambda: len(model.requests) == 1)
    async with stage.worker():
        result = await run.result()
    assert result.output == "done"
    assert [request.aborted for request in model.requests] == [True, False]
    assert [event.type for event in await run.events()] == [
        "llm_start",
        "llm_complete",
        "messages_updated",
        "done",
    ]


async def test_in_a_tool(stage: Stage, scripted: Scripted) -> None:
    gate = Gate()
    async with stage.worker({"gate": gate}, graceful_shutdown_timeout=AT_ONCE):
        run = await stage.start(
            scripted_agent(scripted([asks(call("gate")), says("done")]), ["gate"])
        )
        await gate.reached.wait()
    gate.open.set()
    async with stage.worker({"gate": gate}):
        result = await run.result()
    assert [message.text for message in result.messages[3:]] == ["through", "done"]
    assert gate.entered == 2
    assert not any(event.type == "cancelled" for event in await run.events())


async def test_in_a_tool_that_must_not_run_twice(
    stage: Stage, scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate()

    @tool(idempotent=False)
    async def pay(text: str = "") -> str:
        return str(await gate())

    async with stage.worker([pay], graceful_shutdown_timeout=AT_ONCE):
        run = await stage.start(
            scripted_agent(scripted([asks(call("pay")), says("done")]), ["pay"])
        )
        await gate.reached.wait()
    gate.open.set()
    async with stage.worker([pay]):
        result = await run.result()
    assert gate.entered == 1
    assert (
        result.messages[3].text
        == f"Error: Tool 'pay' failed: its worker was lost while it ran{NEEDS_APPROVAL}"
    )
    assert result.messages[3].metadata["status"] == "error"
    lines = list(in_lines(await summary(ServerConnection(stage.client, None), run)))
    assert any("✗ pay() failed, its outcome is not known, " in line for line in lines), lines
    logged = (
        f"Run {run.id} does not know the outcome of the call call_pay of tool 'pay', which may "
        "have taken effect"
    )
    assert [
        record.levelname for record in caplog.records if record.getMessage().startswith(logged)
    ] == ["WARNING"]


async def test_a_tool_may_finish_within_the_grace_of_the_shutdown(
    stage: Stage, scripted: Scripted
) -> None:
    gate = Gate()
    async with stage.worker({"gate": gate}, graceful_shutdown_timeout=timedelta(seconds=10)):
        run = await stage.start(
            scripted_agent(scripted([asks(call("gate")), says("done")]), ["gate"])
        )
        await gate.reached.wait()
        asyncio.get_running_loop().call_later(0.3, gate.open.set)
    assert gate.left == 1
    async with stage.worker({"gate": gate}):
        result = await run.result()
    assert gate.entered == 1
    assert result.messages[3].text == "through"


async def test_in_an_async_guardrail_and_a_compaction(stage: Stage, scripted: Scripted) -> None:
    judge, compactor = Gate(GuardrailResult(allowed=True)), Gate("a summary")
    long = [Message.user("x" * 400) for _ in range(8)]
    hooks = {"guardrails": {"slow": Guardrails(input=judge)}, "compactors": {"slow": compactor}}
    agent = scripted_agent(scripted([says("done")]))
    async with stage.worker(graceful_shutdown_timeout=AT_ONCE, **hooks):
        run = await stage.start(
            agent, long, context_budget=1000, guardrails="slow", compactor="slow"
        )
        await compactor.reached.wait()
    compactor.open.set()
    async with stage.worker(graceful_shutdown_timeout=AT_ONCE, **hooks):
        await judge.reached.wait()
    judge.open.set()
    async with stage.worker(**hooks):
        result = await run.result()
    assert result.messages[0].text == "[Context summary: a summary]"
    assert result.output == "done"
