"""Tools that are local (`@tool(local=True)`) against a hand-written workflow with two activities:
events and time.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics

from benchmarks.bench_floor import (
    ITERATIONS,
    REST_SECONDS,
    SHORT,
    Runs,
    floor,
    listed,
    time_per_iteration,
)
from benchmarks.stage import Stage, run, stage

MAX_TIME, MAX_EVENTS = 0.75, 8


async def local_tools(stage: Stage, task_queue: str, rounds: int) -> str:
    run = await stage.start(task_queue, rounds, agent=stage.agent_with_local_tools)
    await stage.client.get_workflow_handle(run.id).result()
    return run.id


KINDS: dict[str, Runs] = {"floor": floor, "local tools": local_tools}


async def events_per_iteration(server: Stage, task_queue: str) -> float:
    """What another iteration adds: the difference of two runs."""
    sizes = [
        await server.growth(await local_tools(server, task_queue, rounds))
        for rounds in (SHORT, ITERATIONS)
    ]
    return (sizes[1].events - sizes[0].events) / (ITERATIONS - SHORT)


async def compare(server: Stage, repeats: int) -> None:
    """Interleaved, each kind first in turn, with rests: a server goes on working after its runs
    have ended.
    """
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    async with server.worker("floor") as (floor_queue, _), server.worker() as (perdure_queue, _):
        queues = {"floor": floor_queue, "local tools": perdure_queue}
        for kind, begin in KINDS.items():
            await asyncio.gather(*[begin(server, queues[kind], SHORT) for _ in range(10)])
        events = await events_per_iteration(server, perdure_queue)
        for repeat in range(repeats):
            for kind, begin in list(KINDS.items())[:: 1 if repeat % 2 == 0 else -1]:
                await asyncio.sleep(REST_SECONDS)
                times[kind].append(await time_per_iteration(server, begin, queues[kind]))
    ratios = [ours / bare for ours, bare in zip(times["local tools"], times["floor"], strict=True)]
    shown = ", ".join(f"{kind} {statistics.median(values):.1f}" for kind, values in times.items())
    print(f"  one run  {shown} ms/iteration")
    print(f"  events   {events:.2f} per iteration (at most {MAX_EVENTS})")
    print(
        f"  time     {statistics.median(ratios):.2f} × floor (at most {MAX_TIME})  {listed(ratios)}"
    )
    best = min(times["local tools"]) / min(times["floor"])
    print(f"  the quickest run of each: {best:.2f} × floor", flush=True)


async def main(repeats: int) -> None:
    for name, fast in (("embedded server's settings", True), ("dev server's own settings", False)):
        print(f"{name}: {ITERATIONS} iterations; {repeats} times")
        async with stage(fast=fast) as server:
            await compare(server, repeats)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=8)
    run(main(parser.parse_args().repeats))
