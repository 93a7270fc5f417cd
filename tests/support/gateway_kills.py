"""Gateways and a worker that are killed and started again while clients use them."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from temporalio.client import Client

from .command_line import Cli, Started
from .commands import ForkedCommand, ForkedProcess
from .dev_server import free_port
from .worker_process import WorkerJob
from .workers import Nursery


class Ground:
    """One gateway or several, each at a port of its own, and a worker: processes that come back
    after each kill.
    """

    def __init__(
        self,
        cli: Cli,
        nursery: Nursery,
        job: WorkerJob,
        agent: Path,
        *,
        gateways: int = 1,
        victims: Sequence[str],
    ) -> None:
        self.queue = job.task_queue
        self.ports = [free_port() for _ in range(gateways)]
        self.kills = dict.fromkeys(victims, 0)
        self._cli, self._nursery = cli, nursery
        self._job, self._agent = job, agent
        self._gateways: dict[int, Started] = {}
        self._worker: ForkedProcess

    @asynccontextmanager
    async def killing(
        self, pauses: tuple[float, float], most: float = math.inf
    ) -> AsyncIterator[None]:
        """While the block runs, kill the victims in turn, a pause after each is there again, `most`
        times.
        """
        self._worker = await self._nursery.start(self._job)
        await asyncio.gather(*map(self._serve, self.ports))
        killing = asyncio.create_task(self._kill_in_turn(pauses, most))
        try:
            yield
        finally:
            killing.cancel()
            await asyncio.wait([killing])
            if not killing.cancelled():
                killing.result()

    async def has_runs(self, client: Client, expected: int, query: str = "") -> None:
        """See that so many runs were started here, and not one more; the server's lists are
        late.
        """
        asked = f"TaskQueue = '{self.queue}'{query}"
        while (await client.count_workflows(asked)).count < expected:
            await asyncio.sleep(0.1)
        found = [each.id async for each in client.list_workflows(asked)]
        assert len(found) == expected, sorted(found)

    async def _kill_in_turn(self, pauses: tuple[float, float], most: float) -> None:
        while sum(self.kills.values()) < most:
            await asyncio.sleep(random.uniform(*pauses))
            which = min(self.kills, key=lambda one: self.kills[one])
            self.kills[which] += 1
            if which == "worker":
                self._worker.kill()
                self._worker = await self._nursery.start(self._job)
                continue
            port = random.choice(self.ports)
            process = self._gateways[port].process
            assert isinstance(process, ForkedCommand)
            await process.close()
            await self._serve(port)

    async def _serve(self, port: int) -> None:
        """Start a gateway at the port."""
        arguments = (str(self._agent), "--port", str(port), "--task-queue", self.queue)
        self._gateways[port] = await self._cli.start("serve", *arguments)
        await self._gateways[port].says("Gateway: ")
