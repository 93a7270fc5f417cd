"""Worker processes that a test may kill."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Self

from perdure.json_types import JsonObject

from .commands import ForkedProcess, forker
from .worker_process import WorkerJob


class Nursery:
    """Starts workers; all of them end with it."""

    def __init__(self) -> None:
        self._workers: list[ForkedProcess] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            await worker.wait()

    async def start(self, job: WorkerJob) -> ForkedProcess:
        """A new worker process; it polls a moment later."""
        worker = await forker.worker(job)
        self._workers.append(worker)
        return worker


def read_diary(folder: Path) -> list[JsonObject]:
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
