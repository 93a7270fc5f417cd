"""A day of an operator: a server on a disk, workers of the command line, runs, and what commands
say of them.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from temporalio.client import Client

from perdure import RunOptions
from perdure.agents import Agent
from perdure.client import RunHandle, start_run
from perdure.json_types import JsonView
from perdure.prompty.worker_limits import OPEN
from perdure.testing import ScriptedModel

from .agents import QUESTION
from .command_line import Cli, clean_environment
from .dev_server import DevServer, free_port
from .waiting import wait_for

ONCE = {"idempotent": False}
QUEUE, NAME, AT_ONCE, FEW = "day", "operated", 20, 10
TOOLS = """\
import os

from perdure import ToolContext


def note(context: ToolContext) -> str:
    with open(os.environ["DIARY"], "a") as diary:
        diary.write(f"{context.run_id} {context.call_id}\\n")
    return "noted"
"""


class Day:
    """A server on a disk, workers, and commands; tools note their executions in a diary."""

    def __init__(self, folder: Path, server: DevServer, client: Client) -> None:
        self.server, self.client = server, client
        self.diary, self.log = folder / "diary", folder / "worker.log"
        environment = {
            **clean_environment(folder),
            **OPEN.as_environment(),
            "TEMPORAL_ADDRESS": server.address,
        }
        self.cli = Cli({**environment, "DIARY": str(self.diary)}, folder)
        self.runs: list[RunHandle] = []
        self._folder, self._metrics = folder, free_port()

    @asynccontextmanager
    async def worker(
        self, tools: str = TOOLS, *, names: str = "note", file: str = "tools.py"
    ) -> AsyncIterator[subprocess.Popen[bytes]]:
        """A worker of the command line, with these tools of that file, until the block ends."""
        (self._folder / file).write_text(tools)
        command = [
            sys.executable,
            "-m",
            "perdure.cli",
            "worker",
            "--task-queue",
            QUEUE,
            "--tools",
            f"{file}:{names}",
        ]
        measured = ["--metrics-address", str(self._metrics)] if len(self.runs) == 0 else []
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [*command, *measured],
                **{"cwd": self._folder, "env": self.cli.environment, "stdout": log, "stderr": log},
            )
        try:
            yield process
        finally:
            process.kill()
            await asyncio.to_thread(process.wait)

    async def start(
        self, model: ScriptedModel, runs: int, tool: JsonView = ONCE, **options: Any
    ) -> None:
        """Start so many runs of one agent; `tool` is what its file says of how its tool is
        executed.
        """
        connection = {"kind": "anonymous", "endpoint": model.openai_endpoint}
        agent = Agent.model_validate(
            {
                "name": NAME,
                "model": {
                    "id": "m",
                    "provider": "openai",
                    "apiType": "chat",
                    "connection": connection,
                },
                "tools": [
                    {
                        "name": "note",
                        "kind": "function",
                        "parameters": [],
                        "perdure": {**ONCE, **tool},
                    }
                ],
            }
        )
        left = iter(range(runs))

        async def work() -> None:
            for number in left:
                given = RunOptions(**{"retry_base_seconds": 0.1, **options})
                run = await start_run(
                    self.client,
                    agent,
                    messages=QUESTION,
                    id=f"{NAME}-{number}",
                    task_queue=QUEUE,
                    options=given,
                )
                self.runs.append(run)

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))

    async def counts(self, condition: str, runs: int) -> None:
        """Wait until the server lists so many runs."""

        async def are_listed() -> bool:
            return (
                await self.client.count_workflows(f"PerdureAgent = '{NAME}' AND {condition}")
            ).count == runs

        await wait_for(are_listed, timeout=600)

    async def metric(self, name: str, value: float) -> None:
        """Wait until the sum of the metric is that, in a trial: it is counted each half minute."""
        if len(self.runs) < FEW:
            return

        def asked() -> bool:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self._metrics}/metrics", timeout=30
            ) as answer:
                found = re.findall(
                    rf"^{name}(?:{{.*}})? (\S+)$", answer.read().decode(), re.MULTILINE
                )
            return bool(found) and sum(map(float, found)) == value

        async def is_so() -> bool:
            return await asyncio.to_thread(asked)

        await wait_for(is_so, timeout=120, every=0.3)

    async def first_status(self) -> str:
        return (await self.cli("status", self.runs[0].id)).stdout

    async def require_all_done_once(self) -> None:
        """Fails unless each run has ended well, and each tool call was executed once."""
        results = await asyncio.gather(*(run.result() for run in self.runs))
        assert Counter(result.output for result in results) == {"done": len(self.runs)}
        executed = Counter(self.diary.read_text().split("\n")[:-1])
        assert (len(executed), set(executed.values())) == (len(self.runs), {1})


@asynccontextmanager
async def day(folder: Path, database: Path | None = None) -> AsyncIterator[Day]:
    folder.mkdir(exist_ok=True)
    async with DevServer((database or folder) / "db") as server:
        under_way = Day(folder, server, server.client)
        try:
            yield under_way
        finally:
            await under_way.cli.close()
