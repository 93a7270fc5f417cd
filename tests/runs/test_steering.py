"""Steering at every moment (§13.5)."""

from __future__ import annotations

import asyncio
from typing import Any

from temporalio.client import Client, Interceptor, OutboundInterceptor, SignalWorkflowInput
from temporalio.service import RPCError, RPCStatusCode

from perdure import RunNotFound, Steering
from perdure.client import RunEvent, RunHandle, get_run
from perdure.client.callers import Relay
from perdure.messages import Message
from perdure.testing import ScriptedReply, ScriptedRequest, says

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage


def echo(text: str = "") -> str:
    return text


def said(messages: list[Message]) -> list[str]:
    return [message.text for message in messages if message.role == "user"]


async def test_before_the_first_workflow_task(stage: Stage, scripted: Scripted) -> None:
    model = scripted([says("done")])
    run = await stage.start(scripted_agent(model))
    await run.steer("one", message_id="m1")
    await run.steer("two")
    await run.steer("one", message_id="m1")
    await run.steer("three", message_id="m1")
    async with stage.worker():
        result = await run.result()
    assert said(result.messages) == ["What is it?", "one", "two", "three"]
    assert len(model.requests) == 1
    events = [(event.type, event.data.get("message")) for event in await run.events()]
    assert events[:3] == [
        ("messages_updated", None),
        ("status", "Injected 3 steering message(s)"),
        ("llm_start", None),
    ]


class LosesAnAnswer(Interceptor):
    """Loses the server's answer to the first signal, after the signal has arrived."""

    def __init__(self, steering: Steering) -> None:
        self.steering = steering
        self.signals = 0

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        loses = self

        class Losing(OutboundInterceptor):
            async def signal_workflow(self, input: SignalWorkflowInput) -> None:
                await super().signal_workflow(input)
                loses.signals += 1
                if loses.signals == 1:
                    loses.steering.send("two")
                    raise RPCError("the connection is closed", RPCStatusCode.UNAVAILABLE, b"")

        return Losing(next)


async def test_a_message_whose_answer_is_lost_is_read_once(
    stage: Stage, scripted: Scripted
) -> None:
    steering = Steering()
    loses = LosesAnAnswer(steering)
    config: Any = stage.client.config()
    client = Client(**{**config, "interceptors": [loses]})
    run = await stage.start(scripted_agent(scripted([says("done")])))
    steering.send("one")
    async with Relay(None, steering).to(get_run(client, run.id)), stage.worker():
        result = await run.result()
    assert said(result.messages) == ["What is it?", "one", "two"]
    assert loses.signals == 3


async def watch(run: RunHandle) -> list[RunEvent]:
    return [event async for event in run.stream()]


async def test_messages_that_race_with_the_end(stage: Stage, scripted: Scripted) -> None:
    """Whatever the server took before the run was over is in the conversation, and answered."""

    def script(request: ScriptedRequest) -> ScriptedReply:
        return says(f"answer {request.step}")

    accepted: dict[str, list[str]] = {}

    async def steer_until_over(run: RunHandle) -> None:
        accepted[run.id] = []
        for number in range(40):
            try:
                await run.steer(str(number))
            except RunNotFound:
                return  # the run is over
            accepted[run.id].append(str(number))

    model = scripted(script)
    async with stage.worker():
        runs = [await stage.start(scripted_agent(model), max_iterations=1000) for _ in range(5)]
        watching = [asyncio.create_task(watch(get_run(stage.client, run.id))) for run in runs]
        await asyncio.gather(*[steer_until_over(run) for run in runs])
        results = await asyncio.gather(*[run.result() for run in runs])
        seen = await asyncio.gather(*watching)
    for run, result, events in zip(runs, results, seen, strict=True):
        assert said(result.messages)[1:] == accepted[run.id]
        assert result.messages[-1].role == "assistant"
        assert [event.type for event in events if event.type == "done"] == ["done"]
        assert events[-1].data["messages"] == result.messages
