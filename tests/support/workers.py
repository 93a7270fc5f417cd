"""Worker processes that a test may kill."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .worker_process import WorkerJob

ROOT = Path(__file__).parents[2]


class Nursery:
    """The process that forks workers; all of them end with it."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.support.worker_nursery"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()

    async def start(self, job: WorkerJob) -> WorkerProcess:
        """A new worker process; it polls a moment later."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        async with self._turn:
            self._process.stdin.write(job.model_dump_json().encode() + b"\n")
            return WorkerProcess(int(await self._process.stdout.readline()))


class WorkerProcess:
    """One worker process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def kill(self) -> float:
        """SIGKILL; the moment it was sent."""
        os.kill(self.pid, signal.SIGKILL)
        return time.monotonic()

    def terminate(self) -> None:
        os.kill(self.pid, signal.SIGTERM)


def read_diary(folder: Path) -> list[dict[str, Any]]:
    """What the tools noted, in order."""
    diary = folder / "diary.jsonl"
    return [json.loads(line) for line in diary.read_text().splitlines()] if diary.exists() else []


def count(folder: Path, event: str) -> dict[str, int]:
    """Call id → how often the event was noted."""
    counts: dict[str, int] = {}
    for entry in read_diary(folder):
        if entry["event"] == event:
            counts[entry["call"]] = counts.get(entry["call"], 0) + 1
    return counts
