"""The processes of the runs: workers, a gateway, the services; each with a log."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import random
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from temporalio.client import Client

from perdure.client import connect
from perdure.errors import ConfigurationError

from ..home import ROOT
from .agents import QUEUE

SERVICES_PORT, GATEWAY_PORT = 19001, 19002
STORAGE_MEGABYTES = 200
WEBHOOK_SECRET = "whsec_" + base64.b64encode(b"the webhooks of the chaos runs").decode()


async def patiently_connected() -> Client:
    """A client, as soon as the server can be reached."""
    while True:
        try:
            return await connect()
        except ConfigurationError:
            await asyncio.sleep(0.5)


@dataclass
class Process:
    kind: str
    number: int
    running: asyncio.subprocess.Process
    environment: dict[str, str]
    """What it has in its environment, beside what all have."""

    @property
    def pid(self) -> int:
        return self.running.pid

    def send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.running.send_signal(number)


class Processes:
    """Starts and replaces them; all of them end with it."""

    def __init__(self, folder: Path, seed: int, services_port: int = SERVICES_PORT) -> None:
        self._folder, self._seed, self._port = folder, seed, services_port
        self._random = random.Random(seed)
        self.all: list[Process] = []

    @property
    def storage(self) -> Path:
        """The folder of large values, on a small disk of its own."""
        return self._folder / "storage"

    @property
    def services(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def gateway(self) -> str:
        return f"http://127.0.0.1:{GATEWAY_PORT}"

    def any(self, kind: str) -> Process:
        return self._random.choice([each for each in self.all if each.kind == kind])

    async def start(self, kind: str, number: int = 1, **environment: str) -> Process:
        running = await self._begin(kind, number, environment)
        process = Process(kind, number, running, environment)
        self.all.append(process)
        return process

    async def replace(self, process: Process) -> None:
        """Another one in the place of one that has been killed."""
        await process.running.wait()
        self.all.remove(process)
        await self.start(process.kind, process.number, **process.environment)

    async def mend(self) -> int:
        """Start again what has ended by itself, as whoever supervises it would; how many did."""
        ended = [each for each in self.all if each.running.returncode is not None]
        for process in ended:
            await self.replace(process)
        return len(ended)

    def mount(self) -> None:
        """Make the small disk, which takes root's rights. Raises CalledProcessError."""
        self.storage.mkdir()
        size = f"size={STORAGE_MEGABYTES}m"
        subprocess.run(["mount", "-t", "tmpfs", "-o", size, "chaos", self.storage], check=True)

    async def end(self) -> None:
        for process in self.all:
            process.send(signal.SIGCONT)
            process.send(signal.SIGKILL)
        for process in self.all:
            await process.running.wait()
        if self.storage.is_mount():
            subprocess.run(["umount", self.storage], check=True)

    async def _begin(
        self, kind: str, number: int, environment: dict[str, str]
    ) -> asyncio.subprocess.Process:
        with (self._folder / f"{kind}-{number}.log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *self._command(kind),
                cwd=ROOT,
                env={
                    **os.environ,
                    "CHAOS_FOLDER": str(self._folder),
                    "OPENAI_API_KEY": "any",
                    "PERDURE_WEBHOOK_SECRET": WEBHOOK_SECRET,
                    **environment,
                },
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _command(self, kind: str) -> list[str]:
        folder, python = str(self._folder), sys.executable
        match kind:
            case "worker":
                return [python, "-m", "cluster.chaos.worker", folder]
            case "broken":
                return [python, "-m", "cluster.chaos.broken_worker"]
            case "services":
                seed = str(self._random.randrange(1 << 30))
                return [python, "-m", "cluster.chaos.services", folder, str(self._port), seed]
            case "gateway":
                options = ["--task-queue", QUEUE, "--port", str(GATEWAY_PORT)]
                main = str(self._folder / "main.prompty")
                return [python, "-m", "perdure.cli", "serve", main, *options]
        raise ValueError(f"{kind!r} is not a kind of process")

    async def load(self, runs: int, at_once: int) -> asyncio.subprocess.Process:
        """The program that starts the runs; it ends when they have."""
        with (self._folder / "load.log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "cluster.chaos.load", str(self._folder)),
                *(self.services, self.gateway, str(runs), str(at_once)),
                cwd=ROOT,
                env={**os.environ, "OPENAI_API_KEY": "any"},
                stdout=log,
                stderr=log,
            )
