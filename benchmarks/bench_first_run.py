"""What the first run after a worker's start costs: `python benchmarks/bench_first_run.py`.

A worker is started, waits for a second, and gets its first run: one model call, one tool call, one
model call. The bare workflow of `floor.py` does the same in turns, on the same server. Printed are
the medians and their ratio, of the first run and of the second; the exit code is 1 when the first
takes more than 0.2 s and three times the floor's.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import time

from benchmarks.bench_floor import KINDS, Runs
from benchmarks.stage import Stage, run, stage

WAIT_SECONDS = 1.0
MAX_SECONDS, MAX_RATIO = 0.2, 3.0


async def first_and_second(server: Stage, kind: str, start: Runs) -> tuple[float, float]:
    """Seconds for the first and for the second run of a new worker."""
    async with server.worker(kind) as (task_queue, _):
        await asyncio.sleep(WAIT_SECONDS)
        times = []
        for _ in range(2):
            started = time.perf_counter()
            await start(server, task_queue, 1)
            times.append(time.perf_counter() - started)
        return times[0], times[1]


async def main(repeats: int) -> None:
    os.environ["OPENAI_API_KEY"] = (
        "a-key-that-opens-nothing"  # what a waiting worker imports goes by it
    )
    times: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    async with stage() as server:
        for repeat in range(repeats + 1):
            for kind, start in KINDS.items():
                measured = await first_and_second(server, kind, start)
                if repeat:  # the first round warms the server and this process up
                    times[kind].append(measured)
    for number, name in enumerate(("first run", "second run")):
        medians = {kind: statistics.median(each[number] for each in times[kind]) for kind in KINDS}
        ratio = medians["perdure"] / medians["floor"]
        shown = ", ".join(f"{kind} {seconds * 1000:.0f} ms" for kind, seconds in medians.items())
        print(f"  {name:<10} {shown}   {ratio:.2f} × floor", flush=True)
        if number == 0 and medians["perdure"] > MAX_SECONDS and ratio > MAX_RATIO:
            raise SystemExit(
                f"the first run takes more than {MAX_SECONDS} s and {MAX_RATIO} times the floor's"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    run(main(parser.parse_args().repeats))
