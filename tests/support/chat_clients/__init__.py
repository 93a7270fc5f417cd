"""The official clients of chat protocols, in a process of Node's that a test drives."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from perdure.json_types import JsonObject

from ..needs import lacking, node_folder
from ..waiting import wait_for

DRIVER = Path(__file__).parent / "driver.mjs"
PACKAGES = ("ai", "ai6", "@ag-ui/client")


def chat_modules() -> str:
    """The `NODE_PATH` that has the clients' packages; the test that asks is skipped without
    them.
    """
    found = node_folder(*PACKAGES)
    if found is None or shutil.which("node") is None:
        lacking("node, and NODE_PATH with `npm install ai@7 ai6@npm:ai@6 @ag-ui/client@1`")
    return str(found)


class ChatClients:
    """Clients by name; each answer is the client's state after the command."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[JsonObject]] = {}
        self._reading = asyncio.create_task(self._read())

    async def make(self, kind: str, client: str, **given: Any) -> JsonObject:
        return await self._send(make=kind, client=client, **given)

    async def do(self, client: str, op: str, **given: Any) -> JsonObject:
        return await self._send(client=client, op=op, **given)

    async def _send(self, **command: Any) -> JsonObject:
        number = next(self._numbers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({**command, "number": number}).encode() + b"\n")
        answer = await self._answers[number]
        assert "failed" not in answer, answer["failed"]
        return answer

    async def until(
        self, client: str, holds: Callable[[JsonObject], bool], *, settled: bool = True
    ) -> JsonObject:
        """The state that holds; where it is `settled`, no request is under way."""

        async def state() -> JsonObject | None:
            found = await self.do(client, "state")
            return (
                found
                if holds(found) and (not settled or found.get("status") in (None, "ready", "error"))
                else None
            )

        found = await wait_for(state)
        assert found is not None
        return found

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            answer = json.loads(line)
            self._answers.pop(answer["number"]).set_result(answer)
        for waiting in self._answers.values():
            waiting.cancel("the process of the clients has ended")

    async def close(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        await self._reading


@asynccontextmanager
async def chat_clients() -> AsyncIterator[ChatClients]:
    """A process with no client yet."""
    environment = {**os.environ, "NODE_PATH": chat_modules()}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        "node", str(DRIVER), stdin=pipe, stdout=pipe, env=environment, limit=1 << 24
    )
    clients = ChatClients(process)
    try:
        yield clients
    finally:
        await clients.close()
