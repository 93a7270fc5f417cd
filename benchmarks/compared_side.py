"""One side of `benchmarks.compare`: a worker of the perdure that is first on the path, asked over
stdin.

Only names that every version has are used: this file serves both sides.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import signal
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import perdure
from perdure import Agent, Message, RunOptions, ToolCall, ToolResult, tool
from perdure.activities.heartbeat import Heartbeat
from perdure.activities.model import ask_model
from perdure.client import connect, start_run
from perdure.worker import create_worker, tune_process

ITERATIONS, RUNS, SHORT, CALLS = 100, 40, 3, 30
WIDE, WIDE_ROUNDS = 50, 4
QUEUE = f"compared-{uuid.uuid4()}"


@tool
async def look_up(round: int, part: int) -> str:
    """Look a part up."""
    return hashlib.sha256(f"{round}/{part}".encode()).hexdigest() * 16


class Caller:
    def __init__(self, address: str, endpoint: str) -> None:
        self._address = address
        self._agent = Agent.model_validate(
            {
                "name": "compared",
                "model": {"id": "bench", "connection": {"kind": "anonymous", "endpoint": endpoint}},
                "tools": [
                    {
                        "name": "look_up",
                        "kind": "function",
                        "parameters": [
                            {"name": "round", "kind": "integer"},
                            {"name": "part", "kind": "integer"},
                        ],
                    }
                ],
            }
        )
        self._messages = [Message.system("rounds=0 calls=1"), Message.user("Go on.")]
        for number in range(199):
            call = ToolCall(
                id=f"c{number}", name="look_up", arguments='{"round": "' + "y" * 1000 + '"}'
            )
            self._messages += [
                Message.assistant(tool_calls=[call]),
                Message.tool(call, ToolResult.of_text("z" * 1000)),
            ]

    async def begin(self) -> None:
        self._client = await connect(self._address)

    async def run(self, rounds: int, calls: int = 1) -> None:
        messages = [Message.system(f"rounds={rounds} calls={calls}"), Message.user("Go on.")]
        options = RunOptions(max_iterations=rounds + 1, parallel_tool_calls=calls > 1)
        handle = await start_run(
            self._client,
            self._agent,
            messages=messages,
            task_queue=QUEUE,
            options=options,
            id=str(uuid.uuid4()),
        )
        await self._client.get_workflow_handle(handle.id).result()

    async def time(self) -> float:
        return await _milliseconds(lambda: self.run(ITERATIONS)) / ITERATIONS

    async def rate(self) -> float:
        async def all_at_once() -> None:
            await asyncio.gather(*[self.run(SHORT) for _ in range(RUNS)])

        return RUNS / (await _milliseconds(all_at_once) / 1000)

    async def wide(self) -> float:
        return await _milliseconds(lambda: self.run(WIDE_ROUNDS, WIDE)) / (WIDE_ROUNDS * WIDE)

    async def wire(self) -> float:
        async def calls() -> None:
            for _ in range(CALLS):
                await ask_model(self._agent, self._messages, RunOptions(), Heartbeat())

        return await _milliseconds(calls) / CALLS


async def _milliseconds(work: Callable[[], Awaitable[None]]) -> float:
    started = time.perf_counter()
    await work()
    return (time.perf_counter() - started) * 1000


UNITS = {"time": ITERATIONS, "rate": RUNS * SHORT, "wide": WIDE_ROUNDS * WIDE}
"""How many iterations or calls a measure takes, for the worker's CPU time of each."""
TICKS_PER_MS = os.sysconf("SC_CLK_TCK") / 1000


def _cpu_milliseconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_MS


def _peak_megabytes(pid: int) -> float:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


async def serve(address: str) -> None:
    tune_process()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with create_worker(await connect(address), task_queue=QUEUE, tools=[look_up]):
        await stop.wait()


async def answer(address: str, endpoint: str, worker: int) -> None:
    caller = Caller(address, endpoint)
    await caller.begin()
    for line in sys.stdin:
        match line.strip():
            case "where":
                print(os.path.dirname(perdure.__file__), flush=True)
            case "memory":
                print(_peak_megabytes(worker), flush=True)
            case what:
                before = _cpu_milliseconds(worker)
                value = await getattr(caller, what)()
                print(value, (_cpu_milliseconds(worker) - before) / UNITS.get(what, 1), flush=True)


if __name__ == "__main__":
    pid = os.fork()
    try:
        if pid == 0:
            asyncio.run(serve(sys.argv[1]))
        else:
            asyncio.run(answer(sys.argv[1], sys.argv[2], pid))
    finally:
        if pid:
            os.kill(pid, signal.SIGTERM)
        sys.stdout.flush()
        os._exit(0)
