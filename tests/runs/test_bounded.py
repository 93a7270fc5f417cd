"""The cases in which a run might hang or fail for ever: each ends, well or with a clear error."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Callable

import pytest
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError
from temporalio.exceptions import ApplicationError

from perdure.client import RunHandle, get_run
from perdure.errors import ExecuteError, PayloadTooLargeError, RunError
from perdure.guardrails import GuardrailResult, Guardrails
from perdure.messages import Message, ToolCall
from perdure.protocol.names import WORKFLOW
from perdure.protocol.outcome import RunResult
from perdure.testing import ScriptedReply, ScriptedRequest, asks, says

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage

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


async def test_a_workflow_started_by_hand_with_a_wrong_input(stage: Stage) -> None:
    async with stage.worker():
        handle = await stage.client.start_workflow(
            WORKFLOW, {"agent": 7}, id=stage.task_queue, task_queue=stage.task_queue
        )
        with pytest.raises(WorkflowFailureError) as failure:
            await asyncio.wait_for(handle.result(), BOUND)
    assert isinstance(failure.value.cause, ApplicationError)
    assert (await handle.describe()).status == WorkflowExecutionStatus.FAILED
