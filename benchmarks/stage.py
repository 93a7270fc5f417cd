"""What the benchmarks share: a dev server, a model and a worker, each in a process of its own."""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from perdure import Agent, Message, RunOptions
from perdure.client import RunHandle, connect, start_run
from perdure.client.embedded.launch import FAST, dynamic_config, find_binary
from perdure.history.chain import read_links

ROOT = Path(__file__).parents[1]


@dataclass
class Growth:
    """What a run left in Temporal's histories, summed over its links."""

    links: int
    events: int
    bytes: int


class Process:
    """A Python process whose first line of output says that it is ready."""

    def __init__(self, process: asyncio.subprocess.Process, first_line: str) -> None:
        self._process = process
        self.first_line = first_line
        self.last_line = ""

    @classmethod
    async def start(cls, *arguments: str) -> Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", *arguments, stdout=asyncio.subprocess.PIPE, cwd=ROOT
        )
        assert process.stdout is not None
        return cls(process, (await process.stdout.readline()).decode().strip())

    @property
    def pid(self) -> int:
        return self._process.pid

    async def stop(self) -> str:
        """End it; the last line of its output."""
        self._process.terminate()
        output, _ = await self._process.communicate()
        return output.decode().strip().splitlines()[-1] if output.strip() else ""


@dataclass
class Stage:
    client: Client
    """As `connect` makes it."""
    plain_client: Client
    """As the SDK makes it."""
    address: str
    endpoint: str

    @cached_property
    def agent(self) -> Agent:
        return self._agent()

    @cached_property
    def agent_with_local_tools(self) -> Agent:
        return self._agent(perdure={"local": True})

    def _agent(self, **of_tool: Any) -> Agent:
        return Agent.model_validate(
            {
                "name": "bench",
                "model": {
                    "id": "bench",
                    "connection": {"kind": "anonymous", "endpoint": self.endpoint},
                },
                "tools": [
                    {
                        "name": "look_up",
                        "kind": "function",
                        "parameters": [
                            {"name": "round", "kind": "integer"},
                            {"name": "part", "kind": "integer"},
                        ],
                        **of_tool,
                    }
                ],
            }
        )

    @asynccontextmanager
    async def worker(self, kind: str = "perdure") -> AsyncIterator[tuple[str, Process]]:
        """A worker's task queue and process. `kind` may be `floor`, `forgetful` (without a cache),
        `threads` (its tool runs in a thread) or `traced` (it makes spans).
        """
        task_queue = f"bench-{uuid.uuid4()}"
        process = await Process.start(
            "benchmarks.worker_process", kind, self.address, task_queue, self.endpoint
        )
        try:
            yield task_queue, process
        finally:
            process.last_line = await process.stop()

    async def start(
        self,
        task_queue: str,
        rounds: int,
        *,
        calls: int = 1,
        context_budget: int | None = None,
        stream: bool = False,
        agent: Agent | None = None,
    ) -> RunHandle:
        messages = [Message.system(f"rounds={rounds} calls={calls}"), Message.user("Go on.")]
        options = RunOptions(
            max_iterations=rounds + 1,
            parallel_tool_calls=calls > 1,
            context_budget=context_budget,
            stream=stream,
        )
        agent = agent or self.agent
        return await start_run(
            self.client, agent, messages=messages, task_queue=task_queue, options=options
        )

    async def growth(self, run_id: str) -> Growth:
        """What the run's histories hold."""
        growth = Growth(0, 0, 0)
        async for link in read_links(self.client, run_id):
            description = await self.client.get_workflow_handle(
                run_id, run_id=link.run_id
            ).describe()
            growth.links += 1
            growth.events += description.history_length
            growth.bytes += description.raw_description.workflow_execution_info.history_size_bytes
        return growth


def run(main: Coroutine[None, None, None]) -> NoReturn:
    """Run a benchmark and end the process at once: the interpreter's own shutdown may crash
    (sdk-python issue 300).
    """
    asyncio.run(main)
    sys.stdout.flush()
    os._exit(0)


@asynccontextmanager
async def stage(*, fast: bool = True, settings: tuple[str, ...] = ()) -> AsyncIterator[Stage]:
    """A dev server in memory and a model; `fast` sets the dynamic configuration of the embedded
    server.
    """
    async with _environment(fast, settings) as environment:
        model = await Process.start("benchmarks.model_server")
        try:
            address = environment.client.service_client.config.target_host
            yield Stage(await connect(address), environment.client, address, model.first_line)
        finally:
            await model.stop()


@asynccontextmanager
async def server_at(
    *, settings: tuple[str, ...] = (), arguments: tuple[str, ...] = ()
) -> AsyncIterator[str]:
    """The address of a dev server in memory, with further dynamic configuration and arguments."""
    async with _environment(True, settings, arguments) as environment:
        yield environment.client.service_client.config.target_host


@asynccontextmanager
async def _environment(
    fast: bool, settings: tuple[str, ...], arguments: tuple[str, ...] = ()
) -> AsyncIterator[WorkflowEnvironment]:
    binary = find_binary()
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(binary) if binary else None,
        dev_server_log_level="error",
        dev_server_extra_args=[*dynamic_config(*(FAST if fast else ()), *settings), *arguments],
    ) as environment:
        yield environment
