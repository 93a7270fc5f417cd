"""perdure against a hand-written workflow with the same two activities and tiny payloads: time and
throughput.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
import uuid
from collections.abc import Awaitable, Callable
from datetime import timedelta

from benchmarks.stage import Stage, run, stage

ITERATIONS = 100
RUNS, SHORT = 50, 3
REST_SECONDS = 1.0
MAX_TIME, MIN_THROUGHPUT = 1.15, 0.9

Runs = Callable[[Stage, str, int], Awaitable[str]]
"""Runs once, on a task queue, for so many rounds; gives the workflow id."""


async def perdure(stage: Stage, task_queue: str, rounds: int) -> str:
    run = await stage.start(task_queue, rounds)
    await stage.client.get_workflow_handle(run.id).result()
    return run.id


async def floor(stage: Stage, task_queue: str, rounds: int) -> str:
    id = f"floor-{uuid.uuid4()}"
    await stage.plain_client.execute_workflow(
        "Floor", rounds, id=id, task_queue=task_queue, task_timeout=timedelta(seconds=8)
    )
    return id


KINDS: dict[str, Runs] = {"floor": floor, "perdure": perdure}


async def time_per_iteration(stage: Stage, run: Runs, task_queue: str) -> float:
    """Milliseconds per iteration of one run."""
    started = time.perf_counter()
    await run(stage, task_queue, ITERATIONS)
    return (time.perf_counter() - started) * 1000 / ITERATIONS


async def throughput(stage: Stage, run: Runs, task_queue: str) -> float:
    """Completed runs per second, of many at once."""
    started = time.perf_counter()
    await asyncio.gather(*[run(stage, task_queue, SHORT) for _ in range(RUNS)])
    return RUNS / (time.perf_counter() - started)


async def compare(server: Stage, repeats: int) -> None:
    """Interleaved, each kind first in turn, with rests: a server goes on working after its runs
    have ended.
    """
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    rates: dict[str, list[float]] = {kind: [] for kind in KINDS}
    async with server.worker("floor") as (floor_queue, _), server.worker() as (perdure_queue, _):
        queues = {"floor": floor_queue, "perdure": perdure_queue}
        for kind, run in KINDS.items():
            await asyncio.gather(*[run(server, queues[kind], SHORT) for _ in range(10)])
        for repeat in range(repeats):
            turns = list(KINDS.items())[:: 1 if repeat % 2 == 0 else -1]
            for measure, values in ((time_per_iteration, times), (throughput, rates)):
                for kind, run in turns:
                    await asyncio.sleep(REST_SECONDS)
                    values[kind].append(await measure(server, run, queues[kind]))
    slower = [ours / bare for ours, bare in zip(times["perdure"], times["floor"], strict=True)]
    faster = [ours / bare for ours, bare in zip(rates["perdure"], rates["floor"], strict=True)]
    for what, values, unit in (
        ("one run", times, "ms/iteration"),
        (f"{RUNS} at once", rates, "runs/s"),
    ):
        shown = ", ".join(f"{kind} {statistics.median(values[kind]):.1f}" for kind in KINDS)
        print(f"  {what:12} {shown} {unit}")
    time_ratio, rate_ratio = statistics.median(slower), statistics.median(faster)
    print(f"  time       {time_ratio:.2f} × floor (at most {MAX_TIME})  {listed(slower)}")
    print(
        f"  throughput {rate_ratio:.2f} × floor (at least {MIN_THROUGHPUT})  {listed(faster)}",
        flush=True,
    )


def listed(ratios: list[float]) -> str:
    return "[" + " ".join(f"{ratio:.2f}" for ratio in sorted(ratios)) + "]"


async def main(repeats: int) -> None:
    for name, fast in (("embedded server's settings", True), ("dev server's own settings", False)):
        print(
            f"{name}: {ITERATIONS} iterations; {RUNS} runs of {SHORT} iterations; {repeats} times"
        )
        async with stage(fast=fast) as server:
            await compare(server, repeats)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=8)
    run(main(parser.parse_args().repeats))
