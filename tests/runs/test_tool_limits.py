"""Calls of a tool at a time, on each worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from perdure.client import RunHandle
from perdure.errors import ConfigurationError
from perdure.testing import asks, call, says
from perdure.tools import tool

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage

FOUR = [asks(*(call("slow", f"call_{number}") for number in range(4))), says("done")]


class Slow:
    """A tool that notes how many of its calls are under way at a time."""

    def __init__(self, seconds: float = 0.2) -> None:
        self.now = self.most = self.calls = 0
        self._seconds = seconds

    async def slow(self, text: str = "") -> str:
        self.now, self.calls = self.now + 1, self.calls + 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(self._seconds)
        finally:
            self.now -= 1
        return "done"


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


def test_a_limit_is_a_number_from_1() -> None:
    with pytest.raises(ConfigurationError, match="max_parallel is 0"):
        tool(name="none", max_parallel=0)(lambda: "")
