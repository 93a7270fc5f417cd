"""What the agent loop itself costs per iteration, in process: `python -m benchmarks.bench_loop`.

One iteration is one model call that asks for one tool, its execution, and every event of it. Model
and tool do nothing and never wait. The floor is a loop of a dozen lines that makes the same calls
without anything that makes a loop an agent runner: no events, limits, checks, hooks or
cancellation. Printed is the process's CPU time in the quickest tenth of interleaved rounds, which a
busy machine disturbs least.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import pstats
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from perdure.agents import Agent
from perdure.messages import Message, ModelReply, ToolCall, ToolResult
from perdure.options import RunOptions
from perdure.testing.in_process import InProcessRun

ITERATIONS = 100
ROUNDS = 40
WARM_UP = 5
LIMIT_MICROSECONDS = 50.0
LIMIT_FLOORS = 5.0
"""The loop's own cost per iteration stays within one of the two: microseconds, or multiples of the
floor."""

AGENT = Agent.model_validate(
    {
        "name": "bench",
        "tools": [
            {
                "kind": "function",
                "name": "look_up",
                "parameters": [{"name": "city", "kind": "string", "required": True}],
            }
        ],
    }
)
REPLIES = [
    ModelReply(
        message=Message.assistant(
            "", [ToolCall(id=f"call_{n}", name="look_up", arguments='{"city": "Paris"}')]
        )
    )
    for n in range(ITERATIONS)
] + [ModelReply(message=Message.assistant("done"))]


class Model:
    """Plays the replies."""

    def __init__(self) -> None:
        self._replies = iter(REPLIES)

    def plain(self, agent: Agent, messages: list[Message]) -> ModelReply:
        return next(self._replies)

    async def waiting(self, agent: Agent, messages: list[Message]) -> ModelReply:
        return next(self._replies)


async def look_up(city: str) -> str:
    return "72°F sunny"


def look_up_plainly(city: str) -> str:
    return "72°F sunny"


async def floor() -> None:
    """The bare loop."""
    model = Model()
    messages = [Message.user("What is the weather?")]
    while True:
        reply = await model.waiting(AGENT, list(messages))
        messages.append(reply.message)
        calls = reply.message.tool_calls
        if not calls:
            return
        for call in calls:
            result = await look_up(**json.loads(call.arguments))
            messages.append(Message.tool(call, ToolResult.of_text(result)))


async def in_process(*, plain: bool = False, events: bool = True) -> None:
    """The same through perdure."""
    model = Model()
    seen: list[str] = []

    def on_event(type: str, data: dict[str, Any]) -> None:
        seen.append(type)

    run = InProcessRun(
        AGENT,
        [Message.user("What is the weather?")],
        model=model.plain if plain else model.waiting,
        tools={"look_up": look_up_plainly if plain else look_up},
        options=RunOptions(max_iterations=ITERATIONS + 1),
        on_event=on_event if events else None,
    )
    result = await run.run()
    assert (result.iterations, result.output) == (ITERATIONS + 1, "done")
    assert not events or seen.count("tool_result") == ITERATIONS


VARIANTS: dict[str, Callable[[], Awaitable[None]]] = {
    "floor: a bare loop": floor,
    "async model and tool, events on": in_process,
    "async model and tool, events off": lambda: in_process(events=False),
    "plain tool in a thread, events on": lambda: in_process(plain=True),
}


async def measure() -> int:
    spent: dict[str, list[float]] = {name: [] for name in VARIANTS}
    for round in range(ROUNDS + WARM_UP):
        for name, variant in VARIANTS.items():
            started = time.process_time()
            await variant()
            if round >= WARM_UP:
                spent[name].append((time.process_time() - started) / ITERATIONS * 1e6)
    typical = {name: statistics.quantiles(times, n=10)[0] for name, times in spent.items()}
    bare, looped, *_ = typical.values()
    for name, microseconds in typical.items():
        print(f"{name:36} {microseconds:7.1f} µs per iteration  {microseconds / bare:5.1f} × floor")
    overhead = looped - bare
    print(
        f"{'overhead with events on':36} {overhead:7.1f} µs per iteration  {overhead / bare:5.1f} "
        "× floor  "
        f"(limit {LIMIT_MICROSECONDS:g} µs)"
    )
    return 0 if overhead <= LIMIT_MICROSECONDS or overhead <= LIMIT_FLOORS * bare else 1


def profile() -> None:
    profiler = cProfile.Profile()

    async def repeat() -> None:
        await in_process()
        profiler.enable()
        for _ in range(10):
            await in_process()
        profiler.disable()

    asyncio.run(repeat())
    pstats.Stats(profiler).sort_stats("tottime").print_stats(45)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", action="store_true", help="print where the time goes instead")
    if parser.parse_args().profile:
        profile()
        sys.exit(0)
    sys.exit(asyncio.run(measure()))
