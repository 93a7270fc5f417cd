"""One checkout of perdure against another, in interleaved pairs: `python -m benchmarks.compare
OTHER [--pairs 20]`.

OTHER is a folder with another version (`git worktree add /somewhere REVISION`). Both use the same
server, model and Python environment, and take turns in going first. Printed is, for each measure,
the median of the ratios this / other with the interval that holds the median in 95 of 100
resamples.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.stage import ROOT, Process, run, stage

MEASURES = {
    "time": "ms per iteration",
    "time cpu": "ms of the worker's CPU per iteration",
    "rate": "runs per second",
    "rate cpu": "ms of the worker's CPU per iteration of short runs",
    "wide": "ms per call of 50 at a time",
    "wide cpu": "ms of the worker's CPU per call of 50 at a time",
    "wire": "ms per call of 400 KB",
    "memory": "MB",
}
ORDER = "time", "rate", "wide", "wire"
REST_SECONDS = 0.5
RESAMPLES = 4000


class Side:
    """A worker and a caller of one checkout, each in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.values: dict[str, list[float]] = {name: [] for name in MEASURES}

    async def start(self, address: str, endpoint: str) -> None:
        environment = {**os.environ, "PYTHONPATH": str(self.folder)}
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(ROOT / "benchmarks" / "compared_side.py"), address, endpoint),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=environment,
            cwd=self.folder,
        )
        assert await self.ask("where") == str(self.folder / "perdure"), (
            "this environment has another perdure first"
        )

    async def ask(self, what: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{what}\n".encode())
        return (await self._process.stdout.readline()).decode().strip()

    async def measure(self, what: str) -> None:
        value, *cpu = (await self.ask(what)).split()
        self.values[what].append(float(value))
        if f"{what} cpu" in self.values:
            self.values[f"{what} cpu"].append(float(cpu[0]))

    async def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()


async def main(other: Path, pairs: int) -> None:
    async with stage() as server:
        model = await Process.start("benchmarks.model_server")
        sides = [Side(ROOT), Side(other)]
        for side in sides:
            await side.start(server.address, model.first_line)
            await side.ask("time")
        for pair in range(pairs):
            for what in ORDER:
                for side in sides if pair % 2 == 0 else sides[::-1]:
                    await asyncio.sleep(REST_SECONDS)
                    await side.measure(what)
        for side in sides:
            await side.measure("memory")
        for what, unit in MEASURES.items():
            print(_line(what, unit, sides[0].values[what], sides[1].values[what]), flush=True)
        for side in sides:
            await side.stop()
        await model.stop()


def _line(what: str, unit: str, ours: Sequence[float], theirs: Sequence[float]) -> str:
    ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
    low, high = _interval(ratios)
    medians = f"{statistics.median(ours):.2f} against {statistics.median(theirs):.2f} {unit}"
    return (
        f"{what:8} {statistics.median(ratios):.3f}  [{low:.3f} to {high:.3f}]  {medians}, "
        f"{len(ratios)} pairs"
    )


def _interval(ratios: Sequence[float]) -> tuple[float, float]:
    chance = random.Random(0)
    medians = sorted(
        statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES)
    )
    return medians[int(RESAMPLES * 0.025)], medians[int(RESAMPLES * 0.975)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, help="the folder of the other checkout")
    parser.add_argument("--pairs", type=int, default=20)
    arguments = parser.parse_args()
    run(main(arguments.other.resolve(), arguments.pairs))
