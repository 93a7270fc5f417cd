"""`python -m cluster.chaos`: mixed runs under faults, then both checkers, then a report."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from perdure.client import connect

from .. import client
from ..home import HOME
from . import agents
from .check_effects import read
from .faults import Faults
from .processes import Processes
from .verdict import verdict


async def main(given: argparse.Namespace) -> int:
    if given.check:
        os.environ |= client.environment(client.state()["profile"])
        return await _told(HOME / "chaos", given)
    os.environ |= client.environment(client.reset()["profile"])
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    folder = HOME / "chaos"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    processes = Processes(folder, given.seed)
    agents.write(folder, processes.services)
    processes.mount()
    os.environ["PERDURE_STORAGE"] = processes.storage.as_uri()
    began = time.monotonic()
    try:
        await processes.start("services")
        await asyncio.sleep(2)  # The gateway reads the agents' files, the workers the API's.
        await processes.start("gateway")
        for number in range(1, given.workers + 1):
            await processes.start("worker", number)
        load = await processes.load(given.runs, given.at_once)
        faults = Faults(processes, folder, given.seed)
        while not read(folder, "load"):
            await asyncio.sleep(0.2)
        ending = asyncio.create_task(load.wait())

        def is_over() -> bool:
            late = time.monotonic() - began > given.minutes * 60
            if late:
                (folder / "stop").touch()  # The load begins no more runs.
            return late or ending.done()

        await faults.run(given.pause, is_over)
        await ending
        await asyncio.sleep(5)  # Webhooks that are due.
        return await _told(folder, given)
    finally:
        await processes.end()


async def _told(folder: Path, given: argparse.Namespace) -> int:
    """Check, print and keep the report; the exit code."""
    report = await _report(folder, given)
    text = json.dumps(report, indent=1)
    (folder / "report.json").write_text(text)
    print(text)
    return 1 if report["wrong"] else 0


async def _report(folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    temporal = await connect()
    checked, count = await verdict(temporal, folder)
    load = read(folder, "load")
    runs = [entry for entry in load if entry["event"] in ("started", "asked", "turn")]
    faults = Counter(entry["fault"] for entry in read(folder, "faults"))
    seconds = load[-1]["at"] - load[0]["at"]
    return {
        "seed": given.seed,
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {sys.version.split()[0]}",
        "minutes": round(seconds / 60, 1),
        "runs": len(runs),
        "faults": sum(faults.values()),
        "faults by kind": dict(sorted(faults.items())),
        "failures of the model": len(read(folder, "failures")),
        "looked at": dict(sorted(checked.counts.items())),
        "histories replayed": count,
        "recovery of a killed worker's calls, seconds": _distribution(checked.recoveries),
        "wrong": checked.wrong,
    }


def _distribution(values: list[float]) -> dict[str, float]:
    if not values:
        return {}
    at = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
    found = {name: values[int(share * (len(values) - 1))] for name, share in at.items()}
    found |= {"most": values[-1]}
    return {"count": len(values), **{name: round(value, 2) for name, value in found.items()}}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m cluster.chaos", description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=12)
    parser.add_argument("--minutes", type=float, default=90.0, help="at most so long")
    parser.add_argument("--pause", type=float, default=3.0, help="seconds between two faults")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--check", action="store_true", help="only look at the last ones again")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(_arguments())))
