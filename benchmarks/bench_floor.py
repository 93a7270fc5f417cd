"""perdure against a hand-written workflow with the same two activities and tiny payloads: time,
throughput, and the CPU that the worker takes. `--with` adds runs that are streamed, whose tool runs
in a thread, and whose worker makes spans.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta

from benchmarks.process_load import load_of
from benchmarks.stage import Stage, run, stage

ITERATIONS = 100
RUNS, SHORT = 50, 3
REST_SECONDS = 1.0
MAX_TIME, MIN_THROUGHPUT, MAX_CPU = 1.0, 1.0, 1.1

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


async def streamed(stage: Stage, task_queue: str, rounds: int) -> str:
    run = await stage.start(task_queue, rounds, stream=True)
    await stage.client.get_workflow_handle(run.id).result()
    return run.id


KINDS: dict[str, Runs] = {"floor": floor, "perdure": perdure}
WITH: dict[str, Runs] = {"streamed": streamed, "threads": perdure, "traced": perdure}


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


async def compare(server: Stage, repeats: int, kinds: dict[str, Runs]) -> None:
    """Interleaved, each kind first in turn, with rests: a server goes on working after its runs
    have ended.
    """
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    rates: dict[str, list[float]] = {kind: [] for kind in kinds}
    loads: dict[str, list[float]] = {kind: [] for kind in kinds}
    async with AsyncExitStack() as open:
        workers = {
            kind: await open.enter_async_context(
                server.worker("perdure" if kind == "streamed" else kind)
            )
            for kind in kinds
        }
        for kind, run in kinds.items():
            await asyncio.gather(*[run(server, workers[kind][0], SHORT) for _ in range(10)])
        for repeat in range(repeats):
            turns = list(kinds)[:: 1 if repeat % 2 == 0 else -1]
            load = dict.fromkeys(kinds, 0.0)
            for measure, values in ((time_per_iteration, times), (throughput, rates)):
                for kind in turns:
                    await asyncio.sleep(REST_SECONDS)
                    queue, worker = workers[kind]
                    before = load_of(worker.pid).ran
                    values[kind].append(await measure(server, kinds[kind], queue))
                    load[kind] += load_of(worker.pid).ran - before
            for kind in kinds:
                loads[kind].append(load[kind] * 1000 / (ITERATIONS + RUNS * SHORT))
    for what, values, unit in (
        ("one run", times, "ms/iteration"),
        (f"{RUNS} at once", rates, "runs/s"),
        ("CPU", loads, "ms of the worker's CPU/iteration"),
    ):
        shown = ", ".join(f"{kind} {statistics.median(values[kind]):.1f}" for kind in kinds)
        print(f"  {what:12} {shown} {unit}")
    for kind in [kind for kind in kinds if kind != "floor"]:
        for what, values, limit in (
            ("time", times, f"at most {MAX_TIME}"),
            ("throughput", rates, f"at least {MIN_THROUGHPUT}"),
            ("CPU", loads, f"at most {MAX_CPU}"),
        ):
            ratios = [own / bare for own, bare in zip(values[kind], values["floor"], strict=True)]
            median = statistics.median(ratios)
            print(
                f"  {kind:8} {what:10} {median:.2f} × floor ({limit})  {listed(ratios)}", flush=True
            )


def listed(ratios: list[float]) -> str:
    return "[" + " ".join(f"{ratio:.2f}" for ratio in sorted(ratios)) + "]"


async def main(repeats: int, kinds: dict[str, Runs]) -> None:
    for name, fast in (("embedded server's settings", True), ("dev server's own settings", False)):
        print(
            f"{name}: {ITERATIONS} iterations; {RUNS} runs of {SHORT} iterations; {repeats} times"
        )
        async with stage(fast=fast) as server:
            await compare(server, repeats, kinds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--with", dest="more", nargs="*", choices=WITH, default=[])
    given = parser.parse_args()
    run(main(given.repeats, {**KINDS, **{kind: WITH[kind] for kind in given.more}}))
