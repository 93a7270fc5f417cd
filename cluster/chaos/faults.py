"""The faults: what is killed, frozen or cut next, and for how long."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from .. import client
from .processes import Processes

GROUPS = {
    "ours": {
        "kill_worker": 8,
        "freeze_worker": 3,
        "kill_gateway": 2,
        "freeze_gateway": 1,
        "kill_services": 1,
        "freeze_services": 1,
        "fill_disk": 2,
    },
    "the server's": {
        "kill_frontend": 2,
        "kill_history": 2,
        "kill_matching": 2,
        "kill_server_worker": 1,
        "freeze_frontend": 1,
        "freeze_history": 1,
        "freeze_matching": 1,
        "restart_role": 2,
    },
    "below": {
        "drop": 6,
        "hang": 2,
        "refuse": 2,
        "delay": 2,
        "kill_postgresql": 1,
        "freeze_postgresql": 1,
    },
}
"""Group → fault → how often, in comparison; each group has one fault at a time."""
PAUSES = {"ours": 1.0, "the server's": 5.0, "below": 4.0}
"""Group → its pauses, in comparison: a ring without two of its hosts needs ten seconds."""
ROLES = ("frontend-1", "frontend-2", "history-1", "history-2", "matching-1", "matching-2")
NEED_NOBODY = 0.5
"""Seconds that a killed process of ours is away."""


class Faults:
    """Makes one fault of each group at a time, one after the other."""

    def __init__(self, processes: Processes, folder: Path, seed: int) -> None:
        self._processes, self._folder = processes, folder
        self._random = random.Random(seed)

    async def run(self, pause: float, is_over: Callable[[], bool]) -> None:
        """Make faults, on average `pause` seconds apart, until it is over; then mend everything."""
        try:
            async with asyncio.TaskGroup() as together:
                for group, weights in GROUPS.items():
                    seconds = pause * PAUSES[group]
                    together.create_task(self._one_after_the_other(weights, seconds, is_over))
        finally:
            await asyncio.to_thread(client.network, "pass")

    async def _one_after_the_other(
        self, weights: dict[str, int], pause: float, is_over: Callable[[], bool]
    ) -> None:
        while not is_over():
            await asyncio.sleep(self._random.uniform(0.3, 1.7) * pause)
            await self._make(self._random.choices(list(weights), list(weights.values()))[0])
            if "kill_worker" in weights:
                await self._processes.mend()

    async def _make(self, name: str) -> None:
        began = time.time()
        kind, _, object = name.partition("_")
        action: Callable[[str], Awaitable[Any]] = getattr(self, f"_{kind}")
        detail = await action(object)
        entry = {"fault": name, "at": began, "until": time.time(), **(detail or {})}
        with (self._folder / "faults.jsonl").open("a") as log:
            log.write(json.dumps(entry) + "\n")

    async def _kill(self, what: str) -> dict[str, Any]:
        if what in ("worker", "gateway", "services"):
            process = self._processes.any(what)
            pid = process.pid
            process.send(signal.SIGKILL)
            await asyncio.sleep(NEED_NOBODY)
            await self._processes.replace(process)
            return {"pid": pid}
        return await self._signal(self._name(what), "KILL")

    async def _restart(self, what: str) -> dict[str, Any]:
        return await self._signal(self._random.choice(ROLES), "TERM")

    async def _freeze(self, what: str) -> dict[str, Any]:
        seconds = self._random.uniform(1.0, 12.0)
        if what in ("worker", "gateway", "services"):
            process = self._processes.any(what)
            process.send(signal.SIGSTOP)
            await asyncio.sleep(seconds)
            process.send(signal.SIGCONT)
            return {"pid": process.pid}
        name = self._name(what)
        await self._signal(name, "STOP")
        await asyncio.sleep(seconds if what != "postgresql" else min(seconds, 6.0))
        return await self._signal(name, "CONT")

    async def _fill(self, _: str) -> dict[str, Any]:
        """Leave no byte free on the disk of the large values."""
        filler = self._processes.storage / "filler"
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(1 << 16)):
                continue
        await asyncio.sleep(self._random.uniform(2.0, 8.0))
        filler.unlink()
        return {}

    async def _drop(self, _: str) -> dict[str, Any]:
        await asyncio.to_thread(client.network, "drop")
        return {}

    async def _hang(self, _: str) -> dict[str, Any]:
        return await self._network("hang", self._random.uniform(1.0, 6.0))

    async def _refuse(self, _: str) -> dict[str, Any]:
        return await self._network("refuse", self._random.uniform(0.5, 3.0))

    async def _delay(self, _: str) -> dict[str, Any]:
        return await self._network("delay 200", self._random.uniform(2.0, 6.0))

    async def _network(self, command: str, seconds: float) -> dict[str, Any]:
        await asyncio.to_thread(client.network, command)
        await asyncio.sleep(seconds)
        await asyncio.to_thread(client.network, "pass")
        return {}

    def _name(self, what: str) -> str:
        if what == "server_worker":
            return "worker-1"
        return what if what == "postgresql" else f"{what}-{self._random.choice((1, 2))}"

    async def _signal(self, name: str, word: str) -> dict[str, Any]:
        await asyncio.to_thread(client.ask, do="signal", name=name, signal=word)
        return {"process": name}
