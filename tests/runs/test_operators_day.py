"""What an operator meets in a day, on real processes: what is seen, what mends it, and that nothing is lost."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from perdure import RunOptions
from perdure.agents import Agent
from perdure.client import RunHandle, start_run
from perdure.testing import ScriptedModel, ScriptedReply, ScriptedRequest, asks, says
from perdure.testing.script import Script
from perdure.worker_limits import OPEN

from ..support.agents import QUESTION
from ..support.command_line import Cli, clean_environment
from ..support.dev_server import DevServer, free_port
from ..support.waiting import wait_for

Scripted = Callable[[Script], ScriptedModel]
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
        environment = {**clean_environment(folder), **OPEN.as_environment(), "TEMPORAL_ADDRESS": server.address}
        self.cli = Cli({**environment, "DIARY": str(self.diary)}, folder)
        self.runs: list[RunHandle] = []
        self._folder, self._metrics = folder, free_port()

    @asynccontextmanager
    async def worker(self, tools: str = TOOLS) -> AsyncIterator[subprocess.Popen[bytes]]:
        """A worker of the command line, with these tools, until the block ends."""
        (self._folder / "tools.py").write_text(tools)
        command = [sys.executable, "-m", "perdure.cli", "worker", "--task-queue", QUEUE, "--tools", "tools.py:note"]
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [*command, "--metrics-port", str(self._metrics)],
                **{"cwd": self._folder, "env": self.cli.environment, "stdout": log, "stderr": log},
            )
        try:
            yield process
        finally:
            process.kill()
            await asyncio.to_thread(process.wait)

    async def start(self, model: ScriptedModel, runs: int, **options: Any) -> None:
        """Start so many runs of one agent."""
        connection = {"kind": "anonymous", "endpoint": model.openai_endpoint}
        agent = Agent.model_validate(
            {
                "name": NAME,
                "model": {"id": "m", "provider": "openai", "apiType": "chat", "connection": connection},
                "tools": [{"name": "note", "kind": "function", "parameters": [], "perdure": {"idempotent": False}}],
            }
        )
        left = iter(range(runs))

        async def work() -> None:
            for number in left:
                given = RunOptions(**{"retry_base_seconds": 0.1, **options})
                run = await start_run(
                    self.client, agent, messages=QUESTION, id=f"{NAME}-{number}", task_queue=QUEUE, options=given
                )
                self.runs.append(run)

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))

    async def counts(self, condition: str, runs: int) -> None:
        """Wait until the server lists so many runs."""

        async def are_listed() -> bool:
            return (await self.client.count_workflows(f"PerdureAgent = '{NAME}' AND {condition}")).count == runs

        await wait_for(are_listed, timeout=600)

    async def metric(self, name: str, value: float) -> None:
        """Wait until the sum of the metric is that, in a trial: it is counted each half minute."""
        if len(self.runs) < FEW:
            return

        def asked() -> bool:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics}/metrics", timeout=30) as answer:
                found = re.findall(rf"^{name}(?:{{.*}})? (\S+)$", answer.read().decode(), re.MULTILINE)
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


async def key_revoked(folder: Path, scripted: Scripted, runs: int) -> None:
    """The provider refuses the key of all runs; the server is killed before somebody lets them go on."""
    renewed = False

    def provider(request: ScriptedRequest) -> ScriptedReply:
        if request.step == 0:
            return asks("note")
        return says("done") if renewed else ScriptedReply(status=401)

    model = scripted(provider)
    async with day(folder) as it, it.worker():
        await it.start(model, runs, on_failure="hold")
        await it.counts("PerdureStatus = 'held'", runs)
        await it.metric("perdure_runs_held", runs)
        assert "held (credentials) since" in await it.first_status()
        assert it.log.read_text().count("is held (credentials)") == runs
        await it.server.kill()
        await it.server.start()
        renewed = True
        would = await it.cli("go-on", "--agent", NAME, "--dry-run", "--json")
        assert json.loads(would.stdout)["count"] == runs, would.stdout
        begun = time.monotonic()
        let = await it.cli("go-on", "--agent", NAME, "--json")
        said = json.loads(let.stdout)
        assert (let.code, said["count"], said["failed"]) == (0, runs, []), let.stderr
        print(f"{runs} held runs were let go on in {time.monotonic() - begun:.1f} s", file=sys.stderr)
        await it.require_all_done_once()
        print(f"and had ended after {time.monotonic() - begun:.1f} s", file=sys.stderr)
        await it.metric("perdure_runs_held", 0)
    steps = Counter(request.step for request in model.requests)
    assert steps == {0: runs, 1: 2 * runs}, "one refused call and one more each"


async def test_a_revoked_key(tmp_path: Path, scripted: Scripted) -> None:
    await key_revoked(tmp_path, scripted, 5)


@pytest.mark.trial
@pytest.mark.timeout(600)
async def test_200_held_runs_go_on_by_one_command_after_the_server_was_killed(
    tmp_path: Path, scripted: Scripted
) -> None:
    await key_revoked(tmp_path, scripted, 200)


async def limited(folder: Path, scripted: Scripted, runs: int, seconds: float) -> None:
    """The provider refuses all calls for so long: they wait together, and go on by themselves or by one command."""
    until = [float("inf")]

    def provider(request: ScriptedRequest) -> ScriptedReply:
        if request.step == 0:
            return asks("note")
        is_over = time.monotonic() > until[0]
        return says("done") if is_over else ScriptedReply(status=429, headers={"retry-after": "1"})

    model = scripted(provider)
    async with day(folder) as it, it.worker():
        await it.start(model, runs, on_failure="hold")

        async def is_seen() -> bool:
            return "rate_limit" in await it.first_status()

        await wait_for(is_seen)
        await it.metric("perdure_breaker_open", 1)
        assert "wait, for it refuses them" in it.log.read_text()
        until[0] = time.monotonic() + seconds
        await asyncio.sleep(seconds)
        refused = sum(request.step == 1 for request in model.requests)

        async def are_settled() -> bool:
            open_ones = f"PerdureAgent = '{NAME}' AND ExecutionStatus = 'Running' AND PerdureStatus != 'held'"
            return (await it.client.count_workflows(open_ones)).count == 0

        await wait_for(are_settled, timeout=600, every=0.5)
        held = (await it.client.count_workflows(f"PerdureAgent = '{NAME}' AND PerdureStatus = 'held'")).count
        if held:
            assert (await it.cli("go-on", "--agent", NAME)).code == 0
        await it.require_all_done_once()
        print(f"{refused} refused calls of {runs} runs in {seconds:g} s; {held} were held", file=sys.stderr)
        await it.metric("perdure_breaker_open", 0)
    assert refused < 3 * runs + seconds


async def test_a_rate_limit(tmp_path: Path, scripted: Scripted) -> None:
    await limited(tmp_path, scripted, runs=6, seconds=3.0)


@pytest.mark.trial
@pytest.mark.timeout(900)
async def test_five_minutes_of_429(tmp_path: Path, scripted: Scripted) -> None:
    await limited(tmp_path, scripted, runs=30, seconds=300.0)


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """A file system of its own; skips the test where this user may not have one."""
    folder.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "none", str(folder)], check=False
    ).returncode:
        pytest.skip("this user can't mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path) -> Path:
    """Write until there is no room."""
    filling = disk / "filling"
    with filling.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(65536))
        except OSError:
            pass
    return filling


@pytest.mark.trial
async def test_the_disk_of_the_server_is_full(tmp_path: Path, scripted: Scripted) -> None:
    model = scripted(lambda request: asks("note") if request.step == 0 else says("done"))
    with small_disk(tmp_path / "disk", 64) as disk:
        async with day(tmp_path / "day", disk) as it:
            await it.start(model, 10)
            filling = fill(disk)
            async with it.worker():
                await asyncio.sleep(10)
                seen = await it.cli("doctor")
                print(seen.stdout, seen.stderr, it.log.read_text()[-3000:], file=sys.stderr)
                assert not any(request.step for request in model.requests), "no step is taken that can't be recorded"
                filling.unlink()
                await it.require_all_done_once()
