"""Calls of a tool at a time: on each worker, and over all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from perdure.client import RunHandle
from perdure.errors import ConfigurationError
from perdure.protocol.names import limit_id
from perdure.testing import ScriptedModel, asks, call, says
from perdure.testing.script import Script
from perdure.tools import tool

from ..support.agents import scripted_agent
from ..support.stage import Stage
from ..support.waiting import wait_for

Scripted = Callable[[Script], ScriptedModel]
FOUR = [asks(*(call("slow", f"call_{number}") for number in range(4))), says("done")]


class Slow:
    """A tool that notes how many of its calls are under way at a time."""

    def __init__(self, seconds: float = 0.2, *, expected: int = 0) -> None:
        """Each call waits until so many as are expected have been executed at once."""
        self.now = self.most = self.calls = 0
        self._seconds = seconds
        self._expected = expected

    async def slow(self, text: str = "") -> str:
        self.now, self.calls = self.now + 1, self.calls + 1
        self.most = max(self.most, self.now)
        try:
            await wait_for(self._has_been_so_many)
            await asyncio.sleep(self._seconds)
        finally:
            self.now -= 1
        return "done"

    async def _has_been_so_many(self) -> bool:
        return self.most >= self._expected


async def outputs(runs: list[RunHandle]) -> list[Any]:
    return [(await run.result()).output for run in runs]


async def test_each_worker_executes_so_many_at_a_time(stage: Stage, scripted: Scripted) -> None:
    model, here, there = scripted(FOUR), Slow(), Slow()
    async with stage.worker([limited(here)]), stage.another_worker([limited(there)]):
        runs = [await stage.start(scripted_agent(model, ["slow"])) for _ in range(3)]
        assert await outputs(runs) == ["done"] * 3
    assert max(here.most, there.most) == 2
    assert here.calls + there.calls == 12


def limited(slow: Slow) -> Callable[..., Any]:
    @tool(name="slow", max_parallel=2)
    async def execute(text: str = "") -> str:
        """Takes a while."""
        return await slow.slow(text)

    return execute


async def test_all_workers_together_execute_so_many(stage: Stage, scripted: Scripted) -> None:
    model, slow = scripted(FOUR), Slow(expected=3)
    limits = {"tool_limits": {"slow": 3}}
    async with stage.worker({"slow": slow.slow}, **limits), stage.another_worker({"slow": slow.slow}, **limits):
        runs = [await stage.start(scripted_agent(model, ["slow"])) for _ in range(3)]
        assert await outputs(runs) == ["done"] * 3
        limit = stage.client.get_workflow_handle(limit_id(stage.task_queue, "slow"))
        assert (await limit.describe()).close_time is None
        await limit.terminate()
    assert (slow.most, slow.calls) == (3, 12)


@pytest.mark.trial  # it takes as long as the limit waits until it looks who has ended
async def test_what_a_terminated_run_held_is_given_to_others(stage: Stage, scripted: Scripted) -> None:
    model, slow = scripted([asks(call("slow")), says("done")]), Slow(60.0)
    quick = Slow()
    async with stage.worker({"slow": slow.slow}, tool_limits={"slow": 1}, graceful_shutdown_timeout=timedelta(0)):
        holder = await stage.start(scripted_agent(model, ["slow"]))

        async def is_held() -> bool:
            return slow.now == 1

        await wait_for(is_held)
        await stage.client.get_workflow_handle(holder.id).terminate()
    stage.runs.remove(holder)
    async with stage.worker({"slow": quick.slow}, tool_limits={"slow": 1}):
        run = await stage.start(scripted_agent(model, ["slow"]))
        assert (await run.result()).output == "done"
        await stage.client.get_workflow_handle(limit_id(stage.task_queue, "slow")).terminate()
    assert quick.calls == 1


def test_a_limit_is_a_number_from_1() -> None:
    with pytest.raises(ConfigurationError, match="max_parallel is 0"):
        tool(name="none", max_parallel=0)(lambda: "")
