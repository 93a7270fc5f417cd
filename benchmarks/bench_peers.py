"""perdure, a hand-written workflow, and two frameworks with a Temporal plug-in: the same work on a
server, whose tool gives 1 KB; time, history and Actions.

The frameworks need an environment of their own: `python -m venv peers`, `peers/bin/pip install -r
benchmarks/peers/requirements.txt`, then `python -m benchmarks.bench_peers --python
peers/bin/python`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import time

from temporalio.api.enums.v1 import EventType

from benchmarks.bench_floor import KINDS
from benchmarks.stage import ROOT, Stage, run, stage

ROUNDS, RUNS = 10, 5
FRAMEWORKS = ("openai-agents", "pydantic-ai")
QUIET = {"OPENAI_AGENTS_DISABLE_TRACING": "1"}
BILLED = (
    "WORKFLOW_EXECUTION_STARTED",
    "ACTIVITY_TASK_SCHEDULED",
    "TIMER_STARTED",
    "WORKFLOW_EXECUTION_SIGNALED",
    "WORKFLOW_EXECUTION_UPDATE_ACCEPTED",
    "UPSERT_WORKFLOW_SEARCH_ATTRIBUTES",
    "MARKER_RECORDED",
)
"""Events that Temporal Cloud counts as an Action each."""


async def of_ours(server: Stage, kind: str, rounds: int) -> tuple[float, list[str]]:
    """Milliseconds of an iteration, the median of the runs, and their ids."""
    async with server.worker(kind) as (queue, _):
        times, ids = [], []
        for _ in range(RUNS + 1):
            began = time.perf_counter()
            ids.append(await KINDS[kind](server, queue, rounds))
            times.append((time.perf_counter() - began) * 1e3 / rounds)
    return statistics.median(times[1:]), ids[1:]


async def of_framework(
    server: Stage, python: str, kind: str, rounds: int
) -> tuple[float, list[str]]:
    """The same, by a worker in its own environment."""
    process = await asyncio.create_subprocess_exec(
        *(python, "-m", "benchmarks.peers.measure", kind, server.address, str(rounds), str(RUNS)),
        cwd=ROOT,
        env={**os.environ, "PEERS_ENDPOINT": server.endpoint, "PYTHONPATH": str(ROOT), **QUIET},
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{kind} ended with {process.returncode}: its output has the reason")
    found = json.loads(output.decode().splitlines()[-1])
    return found["ms"], found["ids"]


async def history(server: Stage, id: str) -> tuple[int, int, int]:
    """Bytes, events and Actions of a run of one link."""
    handle = server.plain_client.get_workflow_handle(id)
    described = (await handle.describe()).raw_description.workflow_execution_info
    names = [EventType.Name(event.event_type) async for event in handle.fetch_history_events()]
    actions = sum(name.removeprefix("EVENT_TYPE_") in BILLED for name in names)
    return described.history_size_bytes, len(names), actions


async def main(python: str | None, rounds: int) -> None:
    kinds = [*KINDS, *(FRAMEWORKS if python else ())]
    print(f"{rounds} iterations, median of {RUNS} runs, load {os.getloadavg()[0]:.1f}")
    print("| | ms an iteration | bytes of history | events | Actions |")
    print("| --- | --- | --- | --- | --- |")
    async with stage() as server:
        for kind in kinds:
            if kind in KINDS:
                ms, ids = await of_ours(server, kind, rounds)
            else:
                assert python
                ms, ids = await of_framework(server, python, kind, rounds)
            size, events, actions = await history(server, ids[0])
            print(f"| {kind} | {ms:.1f} | {size:,} | {events} | {actions} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", help="the interpreter of the frameworks' environment")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    run(main(given.python, given.rounds))
