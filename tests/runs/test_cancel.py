"""Cancelling at every point at which a run can be (§13.2)."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import pytest
from temporalio.client import WorkflowExecutionStatus

from perdure.client import RunHandle, get_run
from perdure.errors import RunCancelled
from perdure.guardrails import GuardrailResult, Guardrails
from perdure.messages import Message
from perdure.testing import asks, call, says

from ..support.agents import Scripted, scripted_agent, tool_texts
from ..support.gates import Gate
from ..support.stage import Stage
from ..support.waiting import wait_for

ALLOWED = GuardrailResult(allowed=True)


def echo(text: str = "") -> str:
    return text


async def cancelled(stage: Stage, run: RunHandle, *, within: float = 5.0) -> RunCancelled:
    """The error of a run that was cancelled, after a look at everything that has to be true of
    one.
    """
    with pytest.raises(RunCancelled) as caught:
        await asyncio.wait_for(run.result(), within)
    description = await stage.client.get_workflow_handle(run.id).describe()
    assert description.status == WorkflowExecutionStatus.CANCELED
    closed = get_run(stage.client, run.id)
    events = await closed.events()
    assert [event.type for event in events if event.type in ("done", "failed", "cancelled")] == [
        "cancelled"
    ]
    assert events[-1].type == "cancelled"
    assert events[-1].data == {}
    assert (await closed.status()).status == "cancelled"
    messages = caught.value.messages
    assert messages == await closed.messages()
    check_conversation(messages)
    return caught.value


def check_conversation(messages: list[Message]) -> None:
    """Every tool call has its result, just behind it: any provider would take the conversation."""
    expected: list[str] = []
    for message in messages:
        if message.role == "tool":
            assert message.metadata["tool_call_id"] == expected.pop(0)
        else:
            assert expected == []
            expected = [call.id for call in message.tool_calls]
    assert expected == []


async def test_before_the_first_workflow_task(stage: Stage, scripted: Scripted) -> None:
    model = scripted([says("never asked")])
    run = await stage.start(scripted_agent(model))
    await run.cancel("too early")
    async with stage.worker():
        error = await cancelled(stage, run)
    assert error.reason == "too early"
    assert error.iterations == 0
    assert [message.role for message in error.messages] == ["system", "user"]
    assert model.requests == []


@pytest.mark.parametrize(("wire", "stream"), [("openai-chat", False), ("anthropic", True)])
async def test_in_a_model_call(stage: Stage, scripted: Scripted, wire: str, stream: bool) -> None:
    model = scripted([says("too late", delay=0.0 if stream else 30.0, chunk_delay=10.0)])
    async with stage.worker():
        run = await stage.start(scripted_agent(model, wire=wire), stream=stream)
        await asyncio.to_thread(model.wait_until, lambda: len(model.requests) == 1)
        before = time.monotonic()
        await run.cancel()
        await cancelled(stage, run)
        await asyncio.to_thread(model.wait_until, lambda: model.requests[0].finished_at is not None)
    assert model.requests[0].aborted
    assert model.requests[0].finished_at is not None
    assert model.requests[0].finished_at - before < 2.0
    assert len(model.requests) == 1


async def has_event(run: RunHandle, type: str) -> bool:
    return any(event.type == type for event in await run.events())


async def test_in_a_tool_that_others_wait_behind(stage: Stage, scripted: Scripted) -> None:
    gate = Gate()
    ran: list[str] = []
    calls = [
        call("gate", "call_1"),
        call("note", "call_2", text="b"),
        call("note", "call_3", text="c"),
    ]
    model = scripted([asks(*calls, text="Working.")])
    async with stage.worker({"gate": gate, "note": lambda text: ran.append(text)}):
        note = {
            "name": "note",
            "kind": "function",
            "parameters": [{"name": "text", "kind": "string"}],
        }
        run = await stage.start(scripted_agent(model, ["gate", note]))
        await gate.reached.wait()
        await run.cancel()
        await wait_for(lambda: is_cancel_requested(stage, run))
        gate.open.set()
        error = await cancelled(stage, run)
    assert tool_texts(error.messages) == ["through", "[cancelled]", "[cancelled]"]
    assert error.messages[2].text == "Working."
    assert error.iterations == 1
    assert ran == []
    assert len(model.requests) == 1
    events = await run.events()
    assert [event.type for event in events[-3:]] == ["tool_result", "messages_updated", "cancelled"]
    assert events[-3].data == {"name": "gate", "result": "through"}


async def is_cancel_requested(stage: Stage, run: RunHandle) -> bool:
    description = await stage.client.get_workflow_handle(run.id).describe()
    return description.raw_description.workflow_extended_info.cancel_requested


async def test_in_one_of_parallel_tools(stage: Stage, scripted: Scripted) -> None:
    gates = [Gate(f"result {number}") for number in range(3)]
    names = [f"gate{number}" for number in range(3)]
    model = scripted([asks(*(call(name, f"call_{name}") for name in names))])
    async with stage.worker(dict(zip(names, gates, strict=True))):
        run = await stage.start(scripted_agent(model, names), parallel_tool_calls=True)
        for gate in gates:
            await gate.reached.wait()
        gates[0].open.set()
        await wait_for(lambda: has_result(run))
        await run.cancel()
        await wait_for(lambda: is_cancel_requested(stage, run))
        for gate in gates:
            gate.open.set()
        error = await cancelled(stage, run)
    assert tool_texts(error.messages) == ["result 0", "result 1", "result 2"]
    assert [gate.left for gate in gates] == [1, 1, 1]
    assert len(model.requests) == 1


async def has_result(run: RunHandle) -> bool:
    return await has_event(run, "tool_result")


async def test_without_grace_a_tool_is_told_at_once(stage: Stage, scripted: Scripted) -> None:
    told = asyncio.Event()
    reached = asyncio.Event()

    async def stubborn(text: str = "") -> str:
        reached.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            told.set()
            raise
        return "never"

    async with stage.worker({"stubborn": stubborn}):
        run = await stage.start(
            scripted_agent(scripted([asks(call("stubborn"))]), ["stubborn"]), cancel_grace=0
        )
        await reached.wait()
        await run.cancel()
        await cancelled(stage, run)
        await asyncio.wait_for(told.wait(), 2.0)


async def test_in_an_async_guardrail(stage: Stage, scripted: Scripted) -> None:
    gate = Gate(ALLOWED)
    model = scripted([asks(call("echo")), says("never asked")])
    guardrails = {"slow": Guardrails(tool=gate)}
    async with stage.worker({"echo": echo}, guardrails=guardrails):
        run = await stage.start(scripted_agent(model, ["echo"]), guardrails="slow")
        await gate.reached.wait()
        await run.cancel()
        error = await cancelled(stage, run)
    assert len(model.requests) == error.iterations == 1
    assert tool_texts(error.messages) == ["[cancelled]"]
    assert gate.left == 0


async def test_with_no_worker_there_it_ends_with_the_next_one(
    stage: Stage, scripted: Scripted
) -> None:
    model = scripted([says("too late", delay=30)])
    async with stage.worker(graceful_shutdown_timeout=timedelta(0)):
        run = await stage.start(scripted_agent(model))
        await asyncio.to_thread(model.wait_until, lambda: len(model.requests) == 1)
    await run.cancel()
    async with stage.worker():
        await cancelled(stage, run, within=10.0)
    assert len(model.requests) <= 2


async def test_a_tool_that_was_lost_is_not_started_again_after_a_cancel(
    stage: Stage, scripted: Scripted
) -> None:
    gate = Gate()
    async with stage.worker({"gate": gate}, graceful_shutdown_timeout=timedelta(0)):
        run = await stage.start(scripted_agent(scripted([asks(call("gate"))]), ["gate"]))
        await gate.reached.wait()
    await run.cancel()
    gate.open.set()
    async with stage.worker({"gate": gate}):
        error = await cancelled(stage, run, within=10.0)
    assert gate.entered == 1
    assert error.messages[-1].metadata["status"] == "cancelled"
