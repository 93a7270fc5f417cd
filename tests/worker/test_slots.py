"""A worker begins soon what it takes from the server, however busy its process is."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from perdure import ToolContext
from perdure.testing import asks, call, says

from ..support.agents import Scripted, scripted_agent
from ..support.stage import Stage
from ..support.waiting import wait_for

CALLS, ROUND = 40, 0.02


@asynccontextmanager
async def busy_loop() -> AsyncIterator[None]:
    """An event loop each of whose rounds takes a while, as in a process that has half a core for
    much work.
    """

    async def work() -> None:
        while True:
            time.sleep(ROUND)
            await asyncio.sleep(0)

    working = asyncio.create_task(work())
    try:
        yield
    finally:
        working.cancel()
        await asyncio.wait([working])


async def test_a_busy_worker_repeats_no_call(stage: Stage, scripted: Scripted) -> None:
    executed: Counter[str] = Counter()

    def note(context: ToolContext, text: str = "") -> str:
        executed[context.call_id] += 1
        return "noted"

    model = scripted([asks(*[call("note", f"c{number}") for number in range(CALLS)]), says("done")])

    async def model_is_asked() -> bool:
        return bool(model.requests)

    async with stage.worker({"note": note}, max_concurrent_activity_task_polls=5):
        run = await stage.start(
            scripted_agent(model, ["note"]), parallel_tool_calls=True, lost_worker_seconds=2.0
        )
        await wait_for(model_is_asked)
        async with busy_loop():
            assert (await run.result()).output == "done"
    assert (len(executed), set(executed.values())) == (CALLS, {1})
