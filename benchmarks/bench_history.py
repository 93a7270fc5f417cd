"""History and time per iteration of one run, from 10 to 2,000 iterations; with --long, the memory
over 10,000.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from dataclasses import dataclass

from benchmarks.stage import Process, Stage, run, stage

LENGTHS = (10, 50, 100, 200, 400, 1000, 2000)
LONG = 10_000
BUDGET_CHARS = 40_000
"""About 30 rounds: beyond them, every iteration trims."""


@dataclass
class Row:
    label: str
    rounds: int
    links: int
    events: float
    bytes: float
    milliseconds: float


async def measure(
    stage: Stage, rounds: int, label: str = "", *, calls: int = 1, context_budget: int | None = None
) -> Row:
    async with stage.worker() as (task_queue, process):
        warm = await stage.start(task_queue, 3)
        await warm.result()
        started = time.perf_counter()
        run = await stage.start(task_queue, rounds, calls=calls, context_budget=context_budget)
        await stage.client.get_workflow_handle(run.id).result()
        took = time.perf_counter() - started
        growth = await stage.growth(run.id)
        memory = _resident_megabytes(process)
    row = Row(
        label,
        rounds,
        growth.links,
        growth.events / rounds,
        growth.bytes / rounds,
        took * 1000 / rounds,
    )
    print(
        f"{label:22} {rounds:6} {row.links:5} {row.events:8.1f} {row.bytes:9.0f} "
        f"{row.milliseconds:8.1f} {memory:8.0f}",
        flush=True,
    )
    return row


def _resident_megabytes(process: Process) -> float:
    with open(f"/proc/{process.pid}/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS:"))


def spread(values: list[float]) -> float:
    """The difference between the largest and the smallest, relative to the smallest."""
    return max(values) / min(values) - 1


async def main(lengths: tuple[int, ...]) -> None:
    print(
        f"{'':22} {'rounds':>6} {'links':>5} {'events/it':>8} {'bytes/it':>9} {'ms/it':>8} "
        f"{'RSS MB':>8}"
    )
    async with stage() as server:
        serial = [await measure(server, rounds, "1 call of 1 KB") for rounds in lengths]
        trimmed = [
            await measure(server, rounds, "the same, trimmed", context_budget=BUDGET_CHARS)
            for rounds in lengths
            if rounds in (400, 2000)
        ]
        parallel = [
            await measure(server, rounds, "10 parallel calls", calls=10)
            for rounds in (50, 100, 400)
        ]
    steady = [row for row in serial if row.rounds >= 50]
    for what, rows in (("1 call", steady), ("10 calls", parallel)):
        of_bytes, of_time = (
            spread([row.bytes for row in rows]),
            spread([row.milliseconds for row in rows]),
        )
        print(
            f"{what} per iteration, from 50 on: bytes within {of_bytes:.0%} (at most 10%), ", end=""
        )
        print(f"time within {of_time:.0%} (at most 25%)")
    print(
        f"events per serial iteration: {max(row.events for row in steady):.2f} (at most 12, and a "
        "run's own few)"
    )
    by_rounds = {row.rounds: row for row in serial}
    for row in trimmed:
        if row.rounds in by_rounds:
            print(
                f"trimmed, {row.rounds} iterations: "
                f"{row.bytes / by_rounds[row.rounds].bytes:.2f} of the bytes without (at most 1.15)"
            )


async def long_run(rounds: int) -> None:
    """Whether the worker's memory stays flat: one number for each tenth of the run, after the
    first.
    """
    resident: list[float] = []
    async with stage() as server, server.worker() as (task_queue, process):
        run = await server.start(task_queue, rounds, context_budget=BUDGET_CHARS)
        finished = asyncio.create_task(server.client.get_workflow_handle(run.id).result())
        while not finished.done():
            await asyncio.wait([finished], timeout=1.0)
            resident.append(_resident_megabytes(process))
        await finished
        growth = await server.growth(run.id)
    tenths = [
        resident[len(resident) * part // 10 : len(resident) * (part + 1) // 10]
        for part in range(10)
    ]
    medians = [statistics.median(tenth) for tenth in tenths if tenth]
    print(
        f"{rounds} iterations, trimmed: {growth.links} links, {growth.bytes / rounds:.0f} bytes "
        "per iteration"
    )
    print("resident MB, by tenths: " + " ".join(f"{median:.0f}" for median in medians))
    print(f"from the second tenth to the last: {medians[-1] / medians[1] - 1:+.0%}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--long", action="store_true", help=f"{LONG} iterations, and their memory, instead"
    )
    parser.add_argument("lengths", nargs="*", type=int, default=LENGTHS)
    options = parser.parse_args()
    run(long_run(LONG) if options.long else main(tuple(options.lengths)))
