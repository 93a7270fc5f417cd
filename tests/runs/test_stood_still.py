"""A worker has stood still with calls that it was given: a process that was stopped, a machine that
slept.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio import activity
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from perdure import ToolContext
from perdure.testing import asks, says

from ..support.agents import Scripted, scripted_agent, tool_texts
from ..support.stage import Stage
from ..support.waiting import wait_for

LOST, STILL = 1.0, 5.0
"""Seconds after which the server takes an attempt for lost, and for which it was not begun."""


class StandsStill(ActivityInboundInterceptor, Interceptor):
    """The first activity of that type is given to the worker, and begins long after."""

    def __init__(self, type: str) -> None:
        self.type = type
        self.given = 0
        self.has_begun = asyncio.Event()

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        self.next = next
        return self

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        if activity.info().activity_type != self.type:
            return await self.next.execute_activity(input)
        self.given += 1
        if self.given == 1:
            await asyncio.sleep(STILL)
            self.has_begun.set()
        return await self.next.execute_activity(input)


async def test_a_call_that_was_given_up_is_not_begun(
    stage: Stage, scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    begun: list[int] = []

    async def pay(context: ToolContext, text: str = "") -> str:
        begun.append(context.attempt)
        return "paid"

    model = scripted([asks("pay"), says("done")])
    declared = {"name": "pay", "kind": "function", "perdure": {"idempotent": False}}
    still = StandsStill("perdure.tool.pay")
    async with stage.worker({"pay": pay}, interceptors=[still]):
        run = await stage.start(scripted_agent(model, [declared]), lost_worker_seconds=LOST)
        result = await run.result()
        await asyncio.wait_for(still.has_begun.wait(), 60)
        await wait_for(lambda: is_said("and the server has dropped it", caplog))
    assert begun == []
    [told] = tool_texts(result.messages)
    assert "its worker was lost" in told


async def test_a_model_call_that_was_given_up_is_not_made(
    stage: Stage, scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    model, still = scripted([says("done")]), StandsStill("perdure.call_model")
    async with stage.worker(interceptors=[still]):
        run = await stage.start(scripted_agent(model), lost_worker_seconds=LOST)
        assert (await run.result()).output == "done"
        await asyncio.wait_for(still.has_begun.wait(), 60)
        await wait_for(lambda: is_said("and the server has dropped it", caplog))
    assert len(model.requests) == 1


async def is_said(text: str, caplog: pytest.LogCaptureFixture) -> bool:
    return text in caplog.text
