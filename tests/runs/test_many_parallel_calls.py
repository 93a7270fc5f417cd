"""More parallel calls in one reply than Temporal takes at a time: they take turns."""

from __future__ import annotations

import asyncio

from perdure.testing import asks, call, says

from ..support.agents import Scripted, scripted_agent, tool_texts
from ..support.stage import Stage


async def test_no_more_run_at_once_than_the_option_says(stage: Stage, scripted: Scripted) -> None:
    running, seen, count, most = 0, 0, 12, 3

    async def echo(text: str = "") -> str:
        nonlocal running, seen
        running += 1
        seen = max(seen, running)
        await asyncio.sleep(0.02)
        running -= 1
        return text

    calls = [call("echo", f"call_{number}", text=str(number)) for number in range(count)]
    model = scripted([asks(*calls), says("done")])
    async with stage.worker({"echo": echo}):
        run = await stage.start(
            scripted_agent(model, ["echo"]), parallel_tool_calls=True, max_parallel_tools=most
        )
        result = await run.result()
    assert tool_texts(result.messages) == list(map(str, range(count)))
    assert seen <= most
