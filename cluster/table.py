"""`python -m cluster.table`: what perdure and a hand-written workflow cost on the cluster, side by
side: time, throughput with 1 to 3 workers, CPU of workers and server, bytes of history, Actions.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import statistics
import sys
import time
import urllib.request
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from benchmarks.bench_floor import KINDS
from benchmarks.process_load import load_of
from benchmarks.stage import Process, Stage
from perdure.client import connect

from . import client
from .roles import BALANCER
from .supervisor import children

ITERATIONS, RUNS, SHORT, FOR_ACTIONS = 100, 50, 3, 20
DOLLARS_PER_MILLION_ACTIONS = 50
METRICS = ("127.0.0.11:9090", "127.0.0.12:9090")
ACTION = re.compile(r"^action\{.*\} (\S+)$", re.MULTILINE)
REST_SECONDS = 2.0
Run = Callable[[Stage, str, int], Awaitable[str]]


def _print_table(found: dict[str, Any]) -> None:
    """Print a line for each measure, as the manual has them."""
    print(f"{found.pop('repeats')} repeats, load {found.pop('load')}")
    print(f"| | {' | '.join(found)} |\n|{' --- |' * (1 + len(found))}")
    for part, measures in found["perdure"].items():
        for name in measures:
            values = [str(found[kind].get(part, {}).get(name, "")) for kind in found]
            print(f"| {part}: {name} | {' | '.join(values)} |")


async def main(repeats: int) -> dict[str, Any]:
    os.environ |= client.environment(client.state()["profile"])
    model = await Process.start("benchmarks.model_server")
    try:
        plain = await connect(BALANCER)
        stage = Stage(await connect(BALANCER), plain, BALANCER, model.first_line)
        found: dict[str, Any] = {}
        for count in (1, 2, 3):
            for kind, run in KINDS.items():
                measured = await _with_workers(stage, kind, run, count, repeats)
                found.setdefault(kind, {})[f"{count} workers"] = measured
        found["perdure"]["100 calls of 2,090 tokens"] = await _published_case(stage)
        return {"repeats": repeats, "load": os.getloadavg(), **found}
    finally:
        await model.stop()


async def _with_workers(
    stage: Stage, kind: str, run: Run, count: int, repeats: int
) -> dict[str, Any]:
    queue = f"table-{uuid.uuid4()}"
    start = ("benchmarks.worker_process", kind, stage.address, queue, stage.endpoint)
    workers = [await Process.start(*start) for _ in range(count)]
    try:
        await asyncio.gather(*(run(stage, queue, SHORT) for _ in range(10)))
        measured: dict[str, list[float]] = {}

        def note(name: str, value: float) -> None:
            measured.setdefault(name, []).append(round(value, 2))

        for _ in range(repeats):
            await asyncio.sleep(REST_SECONDS)
            began, before = time.perf_counter(), _server_seconds()
            own = sum(load_of(each.pid).ran for each in workers)
            await asyncio.gather(*(run(stage, queue, SHORT) for _ in range(RUNS)))
            seconds = time.perf_counter() - began
            iterations = RUNS * SHORT
            note("runs a second", RUNS / seconds)
            note("server's CPU, ms an iteration", (_server_seconds() - before) * 1e3 / iterations)
            taken = sum(load_of(each.pid).ran for each in workers) - own
            note("workers' CPU, ms an iteration", taken * 1e3 / iterations)
        found: dict[str, Any] = {name: statistics.median(each) for name, each in measured.items()}
        return found | (await _one_run(stage, run, queue) if count == 1 else {})
    finally:
        for worker in workers:
            await worker.stop()


async def _published_case(stage: Stage) -> dict[str, Any]:
    """Bytes of history of a run that reads 209,000 tokens in 100 calls, as a published report has
    it: there, a workflow that records each request whole has 50 MB.
    """
    async with stage.worker("published") as (queue, _):
        id = await KINDS["perdure"](stage, queue, ITERATIONS)
        size, length = await _history(stage, id)
        return {"megabytes of history": round(size / 1e6, 2), "events": length}


async def _one_run(stage: Stage, run: Run, queue: str) -> dict[str, Any]:
    """Time and history of a long run, Actions of a short one."""
    await asyncio.sleep(REST_SECONDS)
    began = time.perf_counter()
    id = await run(stage, queue, ITERATIONS)
    seconds = time.perf_counter() - began
    size, length = await _history(stage, id)
    before = _actions()
    await run(stage, queue, FOR_ACTIONS)
    actions = _actions() - before
    return {
        "ms an iteration": round(seconds * 1e3 / ITERATIONS, 1),
        "bytes of history an iteration": size // ITERATIONS,
        "events an iteration": round(length / ITERATIONS, 1),
        f"Actions of {FOR_ACTIONS} iterations": actions,
        "dollars of 1,000 such runs": round(actions * DOLLARS_PER_MILLION_ACTIONS / 1e3, 2),
    }


async def _history(stage: Stage, id: str) -> tuple[int, int]:
    """Bytes and events of all links."""
    await asyncio.sleep(REST_SECONDS)  # Lists are a second late.
    size = length = 0
    async for link in stage.client.list_workflows(f"WorkflowId = '{id}'"):
        described = await stage.client.get_workflow_handle(id, run_id=link.run_id).describe()
        size += described.raw_description.workflow_execution_info.history_size_bytes
        length += described.history_length
    return size, length


def _server_seconds() -> float:
    """CPU that the roles and PostgreSQL have taken, with those of its children that are there."""
    total = 0.0
    for name, each in client.ask(do="status").items():
        if each["pid"] and name != "store-1":
            for pid in [each["pid"], *children(each["pid"])]:
                with suppress(OSError):
                    total += load_of(pid).ran
    return total


def _actions() -> int:
    """What Temporal Cloud would bill, as the frontends count it."""
    total = 0.0
    for address in METRICS:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as answer:
            total += sum(map(float, ACTION.findall(answer.read().decode())))
    return int(total)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m cluster.table", description=__doc__)
    parser.add_argument("--repeats", type=int, default=2)
    _print_table(asyncio.run(main(parser.parse_args().repeats)))
    sys.stdout.flush()
    os._exit(0)
