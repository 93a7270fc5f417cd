"""How soon a pause is on many runs, and that nothing is lost: python -m benchmarks.bench_pauses
[RUNS].

The runs are paused in the middle of their calls. Then the server and the worker are killed and
started again, and all go on by one command. The last line is JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from temporalio.client import Client

from perdure import Agent, ToolContext
from perdure.cli.filters import Filters
from perdure.cli.many import RunSelection
from perdure.cli.pause import go_on_many
from perdure.client import start_run
from perdure.client.pauses import pause_runs
from perdure.protocol.run import GoOn
from perdure.worker import create_worker
from tests.support.dev_server import DevServer
from tests.support.waiting import wait_for

from .model_server import Handler

NAME, ROUNDS, LATER = "paused", 2, 3
AT_ONCE = 50
ADDRESS = "TEMPORAL_ADDRESS"


@dataclass
class Figures:
    """What was measured."""

    runs: int
    last_call_seconds: float
    """After the request to pause, the last model or tool call began so long later."""
    held_seconds: float
    """Until the server listed all of them as held."""
    calls_while_paused: int
    """After the restart of server and worker."""
    go_on_seconds: float
    """The one command, with its looks for late ones."""
    done_seconds: float
    """From that command on, until all had ended."""
    executions: dict[int, int]
    """How often a tool call was executed → how many tool calls were."""


class Calls:
    """When model and tool calls begin."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.executed: Counter[tuple[str, int, str]] = Counter()

    def look_up(self, round: int, part: int, context: ToolContext) -> dict[str, int]:
        """Look something up."""
        self.times.append(time.monotonic())
        self.executed[context.run_id, context.iteration, context.call_id] += 1
        return {"round": round}

    def after(self, moment: float) -> int:
        return sum(each > moment for each in self.times)

    @contextmanager
    def model(self) -> Iterator[str]:
        """Serve a model; gives its address."""
        times = self.times

        class Timed(Handler):
            def do_POST(self) -> None:
                times.append(time.monotonic())
                super().do_POST()

        server = ThreadingHTTPServer(("127.0.0.1", 0), Timed)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


def agent_at(endpoint: str) -> Agent:
    """The agent of the runs."""
    parameters = [{"name": name, "kind": "integer", "required": True} for name in ("round", "part")]
    model = {
        "id": "m",
        "provider": "openai",
        "connection": {"kind": "anonymous", "endpoint": endpoint},
    }
    tools = [{"name": "look_up", "kind": "function", "parameters": parameters}]
    return Agent.model_validate({"name": NAME, "model": model, "tools": tools})


async def start_runs(client: Client, agent: Agent, numbers: range) -> None:
    """Start runs on a queue of the agent's name."""
    messages = [
        {"role": "system", "content": f"rounds={ROUNDS} calls=1"},
        {"role": "user", "content": "Begin."},
    ]
    left = iter(numbers)

    async def work() -> None:
        for number in left:
            await start_run(
                client, agent, messages=messages, id=f"{NAME}-{number}", task_queue=NAME
            )

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))


def listed(client: Client, condition: str, count: int) -> Callable[[], Any]:
    """Whether the server lists so many runs."""

    async def are_listed() -> bool:
        return (
            await client.count_workflows(f"PerdureAgent = '{NAME}' AND {condition}")
        ).count == count

    return are_listed


async def measure(runs: int, *, patience: float = 900.0) -> Figures:
    """Pause so many runs, start everything anew, let them go on."""
    calls = Calls()
    with calls.model() as endpoint, tempfile.TemporaryDirectory() as folder:
        server, agent = DevServer(Path(folder) / "db"), agent_at(endpoint)
        client = await server.start()
        before = os.environ.get(ADDRESS)
        os.environ[ADDRESS] = server.address  # where the command finds it
        try:
            async with create_worker(client, task_queue=NAME, tools=[calls.look_up]):
                starting = asyncio.create_task(start_runs(client, agent, range(runs)))
                while len(calls.times) < runs:
                    await asyncio.sleep(0.05)
                await starting
                paused = time.monotonic()
                await pause_runs(client, agent=NAME, by="benchmark")
                await start_runs(client, agent, range(runs, runs + LATER))
                ended = (
                    await client.count_workflows(
                        f"PerdureAgent = '{NAME}' AND ExecutionStatus = 'Completed'"
                    )
                ).count
                await wait_for(_all_held_or_done(client, runs + LATER), timeout=patience, every=0.5)
                held = time.monotonic() - paused
                last = max(calls.times) - paused
                print(f"the last call began {last:.1f} s after the pause", file=sys.stderr)
            await server.kill()
            client = await server.start()
            restarted = time.monotonic()
            async with create_worker(client, task_queue=NAME, tools=[calls.look_up]):
                await asyncio.sleep(2.0)
                calls_while_paused = calls.after(restarted)
                released = time.monotonic()
                assert (
                    await go_on_many(RunSelection([], Filters(agent=NAME)), GoOn(by="benchmark"))
                    == 0
                )
                went_on = time.monotonic() - released
                everything = listed(client, "ExecutionStatus = 'Completed'", runs + LATER)
                await wait_for(everything, timeout=patience, every=0.5)
                done = time.monotonic() - released
            print(f"{ended} of {runs} had ended when they were paused", file=sys.stderr)
        finally:
            await server.kill()
            os.environ.pop(ADDRESS)
            os.environ.update({ADDRESS: before} if before else {})
    executions = dict(Counter(calls.executed.values()))
    return Figures(runs, last, held, calls_while_paused, went_on, done, executions)


def _all_held_or_done(client: Client, runs: int) -> Callable[[], Any]:
    condition = "(PerdureStatus = 'held' OR ExecutionStatus = 'Completed')"
    return listed(client, condition, runs)


if __name__ == "__main__":
    print(
        json.dumps(asdict(asyncio.run(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000))))
    )
