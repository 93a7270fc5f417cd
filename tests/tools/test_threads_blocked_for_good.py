"""A tool that blocks its event loop for good harms itself alone: those after it run on another
loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.client import RunHandle
from perdure.testing import asks, call, says

from ..support.agents import Scripted, scripted_agent, tool_texts
from ..support.stage import Stage
from ..support.unknown_outcomes import FIND_OUT

TIMED_OUT = "Error: Tool '{}' failed: timed out after 1 seconds"


class Blocked:
    """Two tools, one of which blocks until it is released, and what was executed."""

    def __init__(self, stage: Stage, scripted: Scripted) -> None:
        self._stage = stage
        self._scripted = scripted
        self.effects: Counter[str] = Counter()
        self.begun, self.released = threading.Event(), threading.Event()

    async def blocks(self, text: str = "") -> str:
        self.effects["blocks"] += 1
        self.begun.set()
        self.released.wait(60)
        return "blocked"

    async def works(self, text: str = "") -> str:
        self.effects["works"] += 1
        return "worked"

    @property
    def place(self) -> str:
        return f"{Path(__file__).name}:{type(self).blocks.__code__.co_firstlineno + 3}"

    async def asking(self, *names: str) -> RunHandle:
        agent = scripted_agent(
            self._scripted([*(asks(call(name)) for name in names), says("done")]), list(set(names))
        )
        return await self._stage.start(agent, tool_timeout=1)

    async def meet(self) -> list[list[str]]:
        """The tools' results of a run that blocks and then works, and of one that works while the
        first blocks.
        """
        tools = {"blocks": self.blocks, "works": self.works}
        async with self._stage.worker(tools, tool_loop=None):
            first = await self.asking("blocks", "works")
            await asyncio.to_thread(self.begun.wait, 20)
            second = await self.asking("works", "works")
            results = [await run.result() for run in (first, second)]
        return [tool_texts(each.messages) for each in results]


@pytest.fixture
def blocked(stage: Stage, scripted: Scripted) -> Iterator[Blocked]:
    blocked = Blocked(stage, scripted)
    yield blocked
    blocked.released.set()


async def test_what_comes_after_runs_on_another_loop(blocked: Blocked) -> None:
    first, second = await blocked.meet()
    assert first == [
        f"{TIMED_OUT.format('blocks')}: it blocks the event loop at {blocked.place}{FIND_OUT}",
        "worked",
    ]
    never = f"it never started: the event loop is blocked by tool blocks at {blocked.place}"
    assert second == [f"{TIMED_OUT.format('works')}: {never}", "worked"]
    assert blocked.effects == {"blocks": 1, "works": 2}
