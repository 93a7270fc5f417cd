"""Runs that wait for a person, then for another system, while what serves them is killed: worker
and gateway in one.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from temporalio.client import Client

from perdure.client import get_run
from perdure.testing import ScriptedModel, asks, says

from .command_line import Cli, Started
from .commands import ForkedCommand
from .receiver import SECRET, Receiver, receiving
from .waiting import wait_for

TOOLS = Path(__file__).with_name("order_tools.py")
AGENT = """---
name: shop
model:
  id: scripted
  provider: openai
  connection: {{kind: key, endpoint: "{endpoint}", apiKey: "${{env:OPENAI_API_KEY}}"}}
tools:
  - {{name: order, kind: function}}
---
user:
Order it.
"""


class Shop:
    """`perdure serve` with a worker inside, on one port; killed and started again."""

    def __init__(self, cli: Cli, arguments: list[str]) -> None:
        self._cli = cli
        self._arguments = arguments
        self._process: Started | None = None
        self._port = 0
        self.url = ""

    async def start(self) -> None:
        self._process = await self._cli.start("serve", *self._arguments, "--port", str(self._port))
        said = await self._process.says("Gateway: ")
        self.url = said.partition("Gateway: ")[2].split()[0]
        self._port = int(self.url.rpartition(":")[2])

    async def kill(self) -> None:
        assert self._process is not None
        assert isinstance(self._process.process, ForkedCommand)
        await self._process.process.close()

    async def post(self, path: str, body: dict[str, Any], **headers: str) -> httpx2.Response:
        """The answer, after as many tries as it takes to get one that is no 5xx."""
        while True:
            try:
                async with httpx2.AsyncClient(timeout=30, headers=headers) as http:
                    answer = await http.post(f"{self.url}/perdure{path}", json=body)
                if answer.status_code < 500:
                    return answer
            except httpx2.HTTPError:
                pass
            await asyncio.sleep(0.2)


async def tell_over_kills(cli: Cli, client: Client, folder: Path, *, runs: int, kills: int) -> None:
    """Start so many runs, and kill so often. Raises AssertionError unless each was told and decided
    as it should be.
    """
    with ScriptedModel([asks("order"), says("over")]) as model:
        async with receiving() as receiver, _open_shop(cli, model, receiver, folder) as shop:
            started = [
                (
                    await shop.post(
                        "/runs", {"agent": "shop"}, **{"Idempotency-Key": f"order-{number}"}
                    )
                ).json()["id"]
                for number in range(runs)
            ]
            async with asyncio.TaskGroup() as group:
                deciding = group.create_task(_decide(shop, receiver, folder))
                await _kill(shop, kills)
                for run in started:
                    await asyncio.wait_for(get_run(client, run).result(), 180)
                await _require_told(receiver, started)
                deciding.cancel()
        for run in started:
            await _require_decided_once(client, run, folder)


@asynccontextmanager
async def _open_shop(
    cli: Cli, model: ScriptedModel, receiver: Receiver, folder: Path
) -> AsyncIterator[Shop]:
    file = folder / "shop.prompty"
    file.write_text(AGENT.format(endpoint=model.openai_endpoint))
    (folder / "orders").mkdir()
    environment = {
        "OPENAI_API_KEY": "a-key-that-opens-nothing",
        "PERDURE_ALLOW_HOSTS": "*",
        "PERDURE_ALLOW_ENV": "*",
        "PERDURE_CALL_KEY": "a key for tests, of 32 characters",
        "PERDURE_WEBHOOK_SECRET": SECRET,
        "TEST_ORDERS": str(folder / "orders"),
    }
    of_shop = Cli({**cli.environment, **environment})
    queue = f"shop-{folder.name}-{random.randrange(10**9)}"
    options = ["--tools", str(TOOLS), "--task-queue", queue, "--webhook", receiver.url]
    shop = Shop(of_shop, [str(file), *options])
    try:
        await shop.start()
        yield shop
    finally:
        await of_shop.close()


async def _kill(shop: Shop, times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(random.uniform(0.3, 2.0))
        await shop.kill()
        await shop.start()


async def _decide(shop: Shop, receiver: Receiver, folder: Path) -> None:
    """Approve what is told to wait, and finish what has given a token; all of it twice, as callers
    may.
    """
    seen: set[str] = set()
    async with asyncio.TaskGroup() as group:
        while True:
            waiting = [
                (data["run"], data["call"])
                for data in receiver.of_type("run.waiting")
                if data["run"] not in seen
            ]
            for run, call in waiting:
                seen.add(run)
                group.create_task(_approve(shop, run, call))
            for file in (folder / "orders").iterdir():
                if (lines := file.read_text().split()) and file.name + "!" not in seen:
                    seen.add(file.name + "!")
                    group.create_task(_finish(shop, file.name, lines[0]))
            await asyncio.sleep(0.1)


async def _approve(shop: Shop, run: str, call: dict[str, Any]) -> None:
    for _ in range(2):
        answer = await shop.post(
            f"/runs/{run}/approve", {"callId": call["callId"], "digest": call["digest"]}
        )
        assert answer.status_code in (200, 409), answer.text


async def _finish(shop: Shop, run: str, token: str) -> None:
    for _ in range(2):
        answer = await shop.post(f"/calls/{token}", {"result": f"delivered to {run}"})
        assert answer.status_code == 200, answer.text


async def _require_told(receiver: Receiver, runs: list[str]) -> None:
    async def is_told() -> bool:
        told = {(body["type"], body["data"]["run"]) for _, body in receiver.taken}
        return all((type, run) in told for type in ("run.waiting", "run.done") for run in runs)

    await wait_for(is_told, timeout=120)
    ids = {(body["type"], body["data"]["run"], id) for id, body in receiver.taken}
    assert max(Counter((type, run) for type, run, _ in ids).values()) == 1


async def _require_decided_once(client: Client, run: str, folder: Path) -> None:
    handle = get_run(client, run)
    types = Counter(event.type for event in await handle.events())
    assert (types["permission_completed"], types["tool_result"], types["done"]) == (1, 1, 1)
    assert [each.text for each in await handle.messages() if each.role == "tool"] == [
        f"delivered to {run}"
    ]
    assert len(set((folder / "orders" / run).read_text().split())) == 1
