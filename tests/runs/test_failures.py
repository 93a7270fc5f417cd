"""How runs fail: typed, with the conversation, on any handle."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.client import RunHandle, get_run
from perdure.errors import (
    ExecuteError,
    GuardrailError,
    InvokerError,
    RunError,
)
from perdure.guardrails import GuardrailResult, Guardrails
from perdure.messages import Message
from perdure.testing import ScriptedReply, asks, call, says

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage


def echo(text: str = "") -> str:
    return text


def never(_: Any) -> GuardrailResult:
    return GuardrailResult(allowed=False, reason="never")


GUARDRAILS = {
    "no-input": Guardrails(input=never),
    "no-output": Guardrails(output=never),
    "broken": Guardrails(input=lambda messages: 1 / 0),  # type: ignore[arg-type, return-value]
}


async def failure(stage: Stage, run: RunHandle) -> RunError:
    """The error of `result()`, which a handle made anew must give just so, with one terminal event
    and a status.
    """
    with pytest.raises(RunError) as caught:
        await run.result()
    again = get_run(stage.client, run.id)
    with pytest.raises(type(caught.value)) as once_more:
        await again.result()
    first, second = caught.value, once_more.value
    assert (str(first), first.kind, first.reason, first.messages, first.iterations) == (
        str(second),
        second.kind,
        second.reason,
        second.messages,
        second.iterations,
    )
    events = await again.events()
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    terminal = [event.type for event in events if event.type in ("done", "failed", "cancelled")]
    assert terminal == [events[-1].type]
    status = await again.status()
    assert status.status == events[-1].type
    if events[-1].type == "failed":
        assert events[-1].data == {"kind": first.kind, "message": str(first)}
    return first


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages[2:]]


async def test_a_guardrail_that_denies(stage: Stage, scripted: Scripted) -> None:
    model = scripted([says("secret")])
    async with stage.worker(guardrails={"strict": Guardrails(output=never)}):
        error = await failure(stage, await stage.start(scripted_agent(model), guardrails="strict"))
    assert isinstance(error, GuardrailError)
    assert error.reason == "never"
    assert str(error) == "Output guardrail denied: never"
    assert len(model.requests) == error.iterations == 1
    assert texts(error.messages) == []


async def test_a_model_that_keeps_failing(stage: Stage, scripted: Scripted) -> None:
    model = scripted([asks(call("echo", text="x")), ScriptedReply(status=500)])
    async with stage.worker({"echo": echo}):
        run = await stage.start(scripted_agent(model, ["echo"]), max_llm_retries=2)
        error = await failure(stage, run)
    assert isinstance(error, ExecuteError)
    assert str(error).startswith("LLM call failed after 1 retries: ")
    assert error.reason == "server"
    assert error.iterations == 1
    assert texts(error.messages) == ["", "x"]
    assert len(model.requests) == 3
    statuses = [event.data["message"] for event in await run.events() if event.type == "status"]
    assert statuses == ["LLM call failed, retrying (attempt 2/2)..."]


async def test_a_key_that_is_not_set_on_the_worker(stage: Stage, scripted: Scripted) -> None:
    model = scripted([says("never asked")])
    async with stage.worker():
        agent = scripted_agent(model, api_key="${env:PERDURE_TEST_NOT_SET}")
        error = await failure(stage, await stage.start(agent))
    assert error.kind == "configuration"
    assert "PERDURE_TEST_NOT_SET" in str(error)
    assert model.requests == []


async def test_a_provider_that_does_not_exist(stage: Stage, scripted: Scripted) -> None:
    agent = scripted_agent(scripted([]))
    assert agent.model is not None
    agent.model.provider = "unheard-of"
    with pytest.raises(InvokerError, match="No executor registered for key: unheard-of"):
        await stage.start(agent)


async def test_a_run_that_was_terminated(stage: Stage, scripted: Scripted) -> None:
    async with stage.worker():
        run = await stage.start(scripted_agent(scripted([says("too late", delay=30)])))
        handle = stage.client.get_workflow_handle(run.id)
        await handle.terminate("enough")
        error = await failure_from_outside(run)
    assert error.kind == "terminated"
    assert (await run.status()).status == "terminated"
    assert (await run.events())[-1].type == "failed"


async def failure_from_outside(run: RunHandle) -> RunError:
    with pytest.raises(RunError) as caught:
        await run.result()
    return caught.value
