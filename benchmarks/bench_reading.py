"""What it costs to come back to a run: a cache miss at 1,000 iterations, a replay of 200, the
memory of a worker.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable

from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from benchmarks.bench_floor import floor, perdure
from benchmarks.floor import Floor
from benchmarks.stage import Stage, run, stage
from perdure.history.link import read_link
from perdure.workflows.agent_run import AgentRun

LONG, SHORT, MEMORY = 1000, 200, 400
REPEATS = 5
ONE_HISTORY = (
    "limit.historyCount.suggestContinueAsNew=40000",
    "limit.historySize.suggestContinueAsNew=40000000",
)
MAX_SECONDS, MAX_MEGABYTES = 1.0, 110


async def seconds(work: Callable[[], Awaitable[object]]) -> float:
    """The median of a few times."""
    times: list[float] = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        await work()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def report(what: str, ours: float, bare: float, limit: float, unit: str) -> None:
    print(
        f"{what:44} {ours:8.3f} {unit:3} {ours / bare:6.2f} × floor ({bare:.3f})   at most "
        f"{limit:g} {unit}",
        flush=True,
    )


async def cache_miss(server: Stage) -> None:
    """Floor: fetching the same history, without understanding it."""
    async with server.worker() as (task_queue, _):
        run = await server.start(task_queue, LONG)
        handle = server.client.get_workflow_handle(run.id)
        await handle.result()
    run_id = (await handle.describe()).run_id

    async def miss() -> None:
        recorded = await read_link(server.client, run.id, run_id)
        assert len(recorded.conversation().messages) > 2 * LONG

    async def fetch() -> None:
        assert len([event async for event in handle.fetch_history_events()]) > 12 * LONG

    report(
        f"cache miss at {LONG} iterations",
        await seconds(miss),
        await seconds(fetch),
        MAX_SECONDS,
        "s",
    )


async def replays(server: Stage) -> None:
    """Floor: replaying the hand-written workflow."""
    histories: dict[str, WorkflowHistory] = {}
    async with server.worker() as (task_queue, _):
        run = await server.start(task_queue, SHORT)
        await server.client.get_workflow_handle(run.id).result()
        histories["perdure"] = await server.client.get_workflow_handle(run.id).fetch_history()
    async with server.worker("floor") as (task_queue, _):
        id = await floor(server, task_queue, SHORT)
        histories["floor"] = await server.client.get_workflow_handle(id).fetch_history()
    replayer = Replayer(workflows=[AgentRun, Floor], data_converter=server.client.data_converter)
    ours, bare = [
        await seconds(lambda name=name: replayer.replay_workflow(histories[name]))  # type: ignore[misc]
        for name in ("perdure", "floor")
    ]
    report(f"replay of {SHORT} iterations", ours, bare, MAX_SECONDS, "s")


async def memory() -> None:
    """Floor: the worker of the hand-written workflow."""
    peaks: dict[str, float] = {}
    async with stage() as server:
        for kind, run in (("floor", floor), ("perdure", perdure)):
            async with server.worker(kind) as (task_queue, process):
                await run(server, task_queue, MEMORY)
            peaks[kind] = float(process.last_line)
    report(
        f"worker's peak memory over {MEMORY} iterations",
        peaks["perdure"],
        peaks["floor"],
        MAX_MEGABYTES,
        "MB",
    )


async def main() -> None:
    async with stage(settings=ONE_HISTORY) as server:
        await cache_miss(server)
        await replays(server)
    await memory()


if __name__ == "__main__":
    run(main())
