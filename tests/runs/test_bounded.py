"""The cases in which a run might hang or fail for ever: each ends, well or with a clear error."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Callable
from typing import Any

import pytest
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError
from temporalio.exceptions import ApplicationError

from perdure.client import RunHandle, get_run
from perdure.errors import ExecuteError, PayloadTooLargeError, RunError
from perdure.guardrails import GuardrailResult, Guardrails
from perdure.messages import ImagePart, Message, ToolCall
from perdure.protocol.names import APPROVAL, STEER, WORKFLOW
from perdure.protocol.outcome import RunResult
from perdure.testing import ScriptedModel, ScriptedReply, ScriptedRequest, asks, call, says
from perdure.testing.script import Script

from ..support.agents import scripted_agent
from ..support.gates import Gate
from ..support.stage import Stage

Scripted = Callable[[Script], ScriptedModel]
BOUND = 30.0


def noise(size: int) -> str:
    """Text that does not compress well."""
    return base64.b64encode(os.urandom(size * 3 // 4)).decode()


async def ended(run: RunHandle) -> RunResult:
    return await asyncio.wait_for(run.result(), BOUND)


async def failed(run: RunHandle) -> RunError:
    with pytest.raises(RunError) as caught:
        await ended(run)
    assert (await get_run(run._client, run.id).events())[-1].type == "failed"
    assert await get_run(run._client, run.id).messages() == caught.value.messages
    return caught.value


def always(*calls: ToolCall) -> Callable[[ScriptedRequest], ScriptedReply]:
    return lambda request: asks(*calls)


async def test_a_model_that_does_not_answer_in_time(stage: Stage, scripted: Scripted) -> None:
    model = scripted([says("too late", delay=30)])
    async with stage.worker():
        error = await failed(
            await stage.start(scripted_agent(model), llm_timeout=1.0, max_llm_retries=2)
        )
    assert isinstance(error, ExecuteError)
    assert error.reason == "timeout"
    assert len(model.requests) == 2


async def test_a_transcript_of_more_than_two_megabytes(stage: Stage, scripted: Scripted) -> None:
    def script(request: ScriptedRequest) -> ScriptedReply:
        names = [f"call_{request.step}_{number}" for number in range(3)]
        return (
            says("enough") if request.step == 11 else asks(*[call("read", name) for name in names])
        )

    def read(text: str = "") -> str:
        return noise(70_000)

    async with stage.worker({"read": read}):
        run = await stage.start(scripted_agent(scripted(script), ["read"]), max_iterations=100)
        result = await ended(run)
    assert result.output == "enough"
    assert sum(len(message.text) for message in result.messages) > 2_100_000
    assert await get_run(stage.client, run.id).messages() == result.messages


async def test_a_tool_result_of_three_megabytes(stage: Stage, scripted: Scripted) -> None:
    async with stage.worker({"read": lambda text="": noise(3_000_000)}):
        model = scripted([asks(call("read")), says("long")])
        result = await ended(await stage.start(scripted_agent(model, ["read"])))
    assert 60_000 < len(result.messages[3].text) < 70_000
    assert "bytes left out here" in result.messages[3].text


@pytest.mark.parametrize("ends", ["done", "failed", "cancelled"])
async def test_forty_parallel_results_of_64_kilobytes(
    stage: Stage, scripted: Scripted, ends: str
) -> None:
    gate = Gate(noise(64_000))
    calls = [call("read", f"call_{number}") for number in range(40)]
    model = scripted([asks(*calls), says("a lot")])
    async with stage.worker({"read": gate}):
        agent = scripted_agent(model, ["read"])
        run = await stage.start(
            agent, parallel_tool_calls=True, max_iterations=1 if ends == "failed" else 10
        )
        await gate.reached.wait()
        if ends == "cancelled":
            await run.cancel()
        gate.open.set()
        if ends == "done":
            messages = (await ended(run)).messages
        else:
            with pytest.raises(RunError) as caught:
                await ended(run)
            messages = caught.value.messages
    results = [message for message in messages if message.role == "tool"]
    assert [message.metadata["tool_call_id"] for message in results] == [
        asked.id for asked in calls
    ]
    assert all(message.text == gate.gives for message in results)
    assert await get_run(stage.client, run.id).messages() == messages
    assert (await get_run(stage.client, run.id).events())[-1].type == ends


async def test_images_of_a_megabyte(stage: Stage, scripted: Scripted) -> None:
    def look(text: str = "") -> ImagePart:
        return ImagePart.model_validate({"source": noise(900_000), "mediaType": "image/png"})

    model = scripted(
        [asks(*(call("look", f"call_{number}") for number in range(4))), says("pretty")]
    )
    async with stage.worker({"look": look}):
        run = await stage.start(scripted_agent(model, ["look"]), parallel_tool_calls=True)
        result = await ended(run)
    images = [message.parts[0] for message in result.messages if message.role == "tool"]
    assert [len(image.source) for image in images if isinstance(image, ImagePart)] == [900_000] * 4


async def test_an_answer_of_more_than_two_megabytes(stage: Stage, scripted: Scripted) -> None:
    model = scripted([says(noise(2_500_000))])
    async with stage.worker():
        error = await failed(await stage.start(scripted_agent(model)))
    assert isinstance(error, ExecuteError)
    assert error.reason == "invalid_response"
    assert "too large to be recorded" in str(error)
    assert len(model.requests) == 3, "an answer that can't be used is asked for again"


async def test_a_guardrail_that_rewrites_to_more_than_two_megabytes(
    stage: Stage, scripted: Scripted
) -> None:
    def rewrite(messages: list[Message]) -> GuardrailResult:
        return GuardrailResult(allowed=True, rewrite=[Message.user(noise(2_500_000))])

    async with stage.worker(guardrails={"verbose": Guardrails(input=rewrite)}):
        error = await failed(await stage.start(scripted_agent(scripted([])), guardrails="verbose"))
    assert isinstance(error, PayloadTooLargeError)


async def test_a_steering_message_of_more_than_a_megabyte(stage: Stage, scripted: Scripted) -> None:
    gate, long = Gate(), noise(1_400_000)
    model = scripted([asks(call("gate")), says("long")])
    async with stage.worker({"gate": gate}):
        run = await stage.start(scripted_agent(model, ["gate"]))
        await gate.reached.wait()
        await run.steer(long)
        await run.steer(long)
        gate.open.set()
        result = await ended(run)
    assert [message.text for message in result.messages[4:6]] == [long, long]


@pytest.mark.parametrize("input", [{"agent": 7}, "text"], ids=["wrong", "text"])
async def test_a_workflow_started_by_hand_with_a_wrong_input(stage: Stage, input: Any) -> None:
    async with stage.worker():
        handle = await stage.client.start_workflow(
            WORKFLOW, input, id=stage.task_queue, task_queue=stage.task_queue
        )
        with pytest.raises(WorkflowFailureError) as failure:
            await asyncio.wait_for(handle.result(), BOUND)
    assert isinstance(failure.value.cause, ApplicationError)
    assert (await handle.describe()).status == WorkflowExecutionStatus.FAILED


async def test_signals_that_make_no_sense(stage: Stage, scripted: Scripted) -> None:
    gate = Gate()
    model = scripted([asks(call("gate")), says("done")])
    async with stage.worker({"gate": gate}):
        run = await stage.start(scripted_agent(model, ["gate"]))
        await gate.reached.wait()
        handle = stage.client.get_workflow_handle(run.id)
        for signal in (STEER, APPROVAL, "unheard_of"):
            await handle.signal(signal, {"nonsense": [1, 2, 3]})
            await handle.signal(signal)
            await handle.signal(signal, args=[1, 2, 3])
        await handle.signal(STEER, "plain text")
        gate.open.set()
        result = await ended(run)
    assert [message.text for message in result.messages[4:]] == ["plain text", "done"]


async def test_a_streamed_answer_of_more_than_two_megabytes(
    stage: Stage, scripted: Scripted
) -> None:
    """What is streamed travels in heartbeats, which have the same limit."""
    words = " ".join(noise(100_000) for _ in range(25))
    model = scripted([says(words, chunk_delay=0.05)])
    async with stage.worker():
        error = await failed(await stage.start(scripted_agent(model), stream=True))
    assert isinstance(error, ExecuteError)
    assert error.reason == "invalid_response"
    assert len(model.requests) == 3, "an answer that can't be used is asked for again"
