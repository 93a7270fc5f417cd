"""`python -m cluster.soak`: thousands of runs that wait for a person beside some that work, on two
workers, for as long as is asked; what grows, and how long decisions and steering take.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from temporalio.client import Client
from temporalio.service import RPCError

from perdure.client import RunHandle, RunOptions, connect, list_runs, start_run
from perdure.errors import ApprovalError, RunNotFound

from . import client, database
from .chaos import agents
from .chaos.agents import QUEUE
from .chaos.check_effects import read
from .chaos.processes import Process, Processes
from .chaos.shapes import mark
from .home import HOME

SAMPLE_SECONDS = 15.0
WAITING = "PerdureStatus = 'waiting'"
SETTLING_MINUTES = 5.0
"""Growth is measured after these: until then caches fill."""


class Soak:
    def __init__(self, temporal: Client, folder: Path, given: argparse.Namespace) -> None:
        self._client, self._folder, self._given = temporal, folder, given
        self._random = random.Random(given.seed)
        self.waiting: list[RunHandle] = []
        self.accepted: list[float] = []
        """Seconds until an approval was accepted."""
        self.approved_at: dict[str, float] = {}
        self.steered: list[float] = []
        self.listed: list[float] = []
        self.done = 0
        self.refused: Counter[str] = Counter()

    async def start(self, shape: str, run: str) -> RunHandle:
        return await start_run(
            self._client,
            self._folder / "main.prompty",
            messages=[{"role": "user", "content": mark(run, shape)}],
            task_queue=QUEUE,
            id=run,
            options=RunOptions(max_llm_retries=20, retry_base_seconds=0.2, max_iterations=30),
        )

    async def fill(self) -> None:
        """Start the waiting runs, twenty at a time, and return when the last one waits."""
        turns = asyncio.Semaphore(20)

        async def one(number: int) -> None:
            async with turns:
                self.waiting.append(await self.start("approval", f"w{number:05d}"))

        await asyncio.gather(*(one(number) for number in range(self._given.waiting)))
        query = f"{WAITING} AND ExecutionStatus = 'Running'"
        while (await self._client.count_workflows(query)).count < self._given.waiting:
            await asyncio.sleep(1)

    async def work(self, number: int, is_over: Callable[[], bool]) -> None:
        """One active run after the other, each of them steered."""
        turn = 0
        while not is_over():
            turn += 1
            run = await self.start("steered", f"a{number:03d}-{turn:04d}")
            await asyncio.sleep(self._random.uniform(0, 2))
            await self._timed(self.steered, run.steer(f"steering 0 of {run.id}"))
            await run.result()
            self.done += 1

    async def decide(self, is_over: Callable[[], bool]) -> None:
        """Approve the oldest waiting run each second, and start another one in its place."""
        number = self._given.waiting
        while not is_over():
            run = self.waiting.pop(0)
            self.approved_at[run.id] = time.time()
            await self._timed(self.accepted, run.approve("call_0_0"))
            self.waiting.append(await self.start("approval", f"w{number:05d}"))
            number += 1
            await asyncio.sleep(1)

    async def look(self, is_over: Callable[[], bool]) -> None:
        """List the runs that wait, as a person does."""
        while not is_over():
            await self._timed(self.listed, self._list())
            await asyncio.sleep(10)

    async def _list(self) -> int:
        return len([run async for run in list_runs(self._client, where=WAITING, limit=50)])

    async def watch(self, run: RunHandle) -> None:
        """Follow a run that waits, until the soak is over."""
        try:
            async for _ in run.stream():
                pass
        except RPCError as error:
            self.refused[error.status.name] += 1

    async def _timed(self, times: list[float], call: Any) -> None:
        began = time.monotonic()
        try:
            await call
            times.append(time.monotonic() - began)
        except RPCError as error:
            self.refused[error.status.name] += 1
        except RunNotFound:
            self.refused["ended before"] += 1
        except ApprovalError as error:  # Such as an unconfirmed one, which may still count.
            self.refused[error.kind] += 1


async def main(given: argparse.Namespace) -> int:
    os.environ |= client.environment(client.reset()["profile"])
    folder = HOME / "soak"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    processes = Processes(folder, given.seed)
    agents.write(folder, processes.services)
    try:
        await processes.start("services")
        await asyncio.sleep(2)
        cache = str(given.cache_megabytes * 2**20)
        workers = [
            await processes.start("worker", number, CHAOS_CACHE_BYTES=cache) for number in (1, 2)
        ]
        soak = Soak(await connect(), folder, given)
        await asyncio.sleep(5)
        before = (database.size(), sum(_resident(each) for each in workers))
        began = time.monotonic()
        await soak.fill()
        filled = (database.size(), sum(_resident(each) for each in workers))
        filling = time.monotonic() - began
        samples = await _soaked(soak, given, workers)
        report = _report(folder, soak, given, samples, before, filled)
        report["runs that wait, begun per second"] = round(given.waiting / filling, 1)
    finally:
        await processes.end()
    text = json.dumps(report, indent=1)
    (folder / "report.json").write_text(text)
    print(text)
    return 0


async def _soaked(
    soak: Soak, given: argparse.Namespace, workers: list[Process]
) -> list[dict[str, Any]]:
    end = time.monotonic() + given.minutes * 60
    samples: list[dict[str, Any]] = []

    def is_over() -> bool:
        return bool(time.monotonic() > end)

    watchers = [asyncio.create_task(soak.watch(run)) for run in soak.waiting[: given.watchers]]
    working = [
        *(soak.work(number, is_over) for number in range(given.active)),
        soak.decide(is_over),
        soak.look(is_over),
    ]
    tasks = [asyncio.create_task(each) for each in working]
    began = time.monotonic()
    while not is_over():
        samples.append({"at": time.monotonic() - began, "workers": [_sample(w) for w in workers]})
        samples[-1]["done"] = soak.done
        await asyncio.sleep(SAMPLE_SECONDS)
    ended, _ = await asyncio.wait(tasks, timeout=60)
    for task in ended:
        task.result()  # Raises what it has raised.
    for task in watchers:
        task.cancel()
    return samples


def _sample(worker: Process) -> dict[str, int]:
    folder = Path(f"/proc/{worker.pid}")
    return {
        "bytes": _resident(worker),
        "handles": len(list((folder / "fd").iterdir())),
        "threads": len(list((folder / "task").iterdir())),
        "children": len((folder / f"task/{worker.pid}/children").read_text().split()),
    }


def _resident(worker: Process) -> int:
    pages = int(Path(f"/proc/{worker.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _report(
    folder: Path,
    soak: Soak,
    given: argparse.Namespace,
    samples: list[dict[str, Any]],
    before: tuple[int, int],
    filled: tuple[int, int],
) -> dict[str, Any]:
    settled = [each for each in samples if each["at"] > SETTLING_MINUTES * 60] or samples
    starts = {
        entry["run"]: entry["at"]
        for entry in read(folder, "diary")
        if entry["tool"] == "approved" and entry["event"] == "start"
    }
    begun = [starts[run] - at for run, at in soak.approved_at.items() if run in starts]
    return {
        "waiting": given.waiting,
        "active": given.active,
        "watchers": given.watchers,
        "minutes": given.minutes,
        "active runs that ended": soak.done,
        "an approval is accepted, seconds": _spread(soak.accepted),
        "from an approval to its tool, seconds": _spread(begun),
        "steering is accepted, seconds": _spread(soak.steered),
        "a list of 50 that wait, seconds": _spread(soak.listed),
        "refused": dict(soak.refused),
        "bytes of the database per waiting run": (filled[0] - before[0]) // given.waiting,
        "bytes of the workers per waiting run": (filled[1] - before[1]) // given.waiting,
        "growth of a worker, MB a minute": [
            round(_slope(settled, number, "bytes") / 1e6, 2) for number in (0, 1)
        ],
        "a worker at the end": settled[-1]["workers"],
        "change of handles": [_change(settled, number, "handles") for number in (0, 1)],
        "change of threads": [_change(settled, number, "threads") for number in (0, 1)],
        "change of child processes": [_change(settled, number, "children") for number in (0, 1)],
        "cluster": client.report(),
    }


def _slope(samples: list[dict[str, Any]], worker: int, what: str) -> float:
    """Growth a minute, by the line of the least squares."""
    if len(samples) < 2:
        return 0.0
    times = [each["at"] / 60 for each in samples]
    values = [each["workers"][worker][what] for each in samples]
    return statistics.linear_regression(times, values).slope


def _change(samples: list[dict[str, Any]], worker: int, what: str) -> int:
    change: int = samples[-1]["workers"][worker][what] - samples[0]["workers"][worker][what]
    return change


def _spread(values: list[float]) -> dict[str, float]:
    if not values:
        return {}
    ordered = sorted(values)
    at = {"p50": 0.5, "p99": 0.99}
    found = {name: ordered[int(share * (len(ordered) - 1))] for name, share in at.items()}
    return {"count": len(ordered), **{name: round(value, 3) for name, value in found.items()}}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m cluster.soak", description=__doc__)
    parser.add_argument("--waiting", type=int, default=2000)
    parser.add_argument("--active", type=int, default=100)
    parser.add_argument("--watchers", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--cache-megabytes", type=int, default=128, help="of conversations")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(_arguments())))
