"""Chats whose pages come and go, while the gateways behind a balancer, and the worker, are
killed.
"""

from __future__ import annotations

import asyncio
import math
import random
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from temporalio.client import Client

from perdure.testing import ScriptedModel, ScriptedReply, ScriptedRequest, asks, call, says

from .chat_clients import ChatClients
from .command_line import Cli
from .dev_server import free_port
from .gateway_kills import Ground
from .worker_process import WorkerJob
from .workers import Nursery

SECONDS = 240
"""In which a chat is over, whatever is killed."""
AGENT = """---
name: clerk
model: {{id: m, connection: {{kind: key, endpoint: "{endpoint}"}}}}
tools: [{{name: ask_user, kind: builtin}}]
metadata: {{perdure: {{maxLlmRetries: 30, retryBaseSeconds: 0.1}}}}
---
"""
Seen = dict[str, Any]


def before(number: str) -> str:
    """What is said before the question."""
    return f"I have read {number} and must ask. "


def answer(number: str) -> str:
    """What is said at the end."""
    return " ".join(f"w{number}.{place}" for place in range(60))


def reply(request: ScriptedRequest) -> ScriptedReply:
    """A question, and when that is answered by what the page says to it, a text that takes a
    while.
    """
    messages = request.body["messages"]
    number = next(each["content"] for each in messages if each["role"] == "user").split()[-1]
    if messages[-1]["role"] == "user":
        return asks(call("ask_user", question="Which?"), text=before(number))
    said = messages[-1]["content"]
    return says(
        answer(number) if "tea" in said else f"I have not asked for {said!r}.", chunk_delay=0.02
    )


class Balancer:
    """Passes each connection on to one of the ports at which somebody listens."""

    def __init__(self, ports: list[int]) -> None:
        self.port = free_port()
        self._ports = ports

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._pass_on, "127.0.0.1", self.port)
        try:
            yield
        finally:
            server.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for port in random.sample(self._ports, len(self._ports)):
            with suppress(OSError):
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
                break
        else:
            writer.transport.abort()
            return
        ways = [
            asyncio.create_task(_copy(*way)) for way in ((reader, far_writer), (far_reader, writer))
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            # What was written arrives; what is cut is seen as cut.
            for each in (writer, far_writer):
                with suppress(Exception):
                    each.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()


class Pages:
    """Pages of both protocols, each with a chat of its own, which come and go at random."""

    def __init__(
        self, clients: ChatClients, url: str, name: str, leave: tuple[int, int], visits: int
    ) -> None:
        self._clients = clients
        self._url = url
        self._name = name
        self._leave = leave
        self._visits = visits
        self.requests = 0

    def _moment(self, visit: int) -> int | None:
        """Milliseconds until the page goes away; None for a visit that stays."""
        return random.randint(*self._leave) if visit < self._visits else None

    async def play(self, number: int) -> None:
        """Hold one chat to its end, and see that its texts are whole, and every stream has ended
        once.
        """
        async with asyncio.timeout(SECONDS):
            name = f"{self._name}-{number}"
            seen = await (
                self._ai_sdk(name, str(number)) if number % 2 else self._ag_ui(name, str(number))
            )
        self.requests += seen["requests"]
        for stream in seen["streams"]:
            assert stream["ends"] <= 1, stream
            assert not stream["isWhole"] or stream["status"] != 200 or stream["ends"] == 1, stream

    async def _ai_sdk(self, name: str, number: str) -> Seen:
        whole = before(number) + answer(number)
        await self._clients.make("ai-sdk", name, package="ai", api=f"{self._url}/ai/clerk", id=name)
        seen = await self._clients.do(name, "send", text=f"Read {number}", ms=self._moment(0))
        for visit in range(1, 10_000):
            assistants = [each for each in seen["messages"] if each["role"] == "assistant"]
            last, ms = seen["messages"][-1], self._moment(visit)
            told = "".join(
                part["text"]
                for each in assistants
                for part in each["parts"]
                if part["type"] == "text"
            )
            assert whole.startswith(told), (number, told)
            if told == whole and seen["status"] == "ready":
                return seen
            asked = any(
                part["type"] == "data-question" for each in assistants for part in each["parts"]
            )
            if asked and last["role"] == "assistant":
                seen = await self._clients.do(name, "send", text="tea", ms=ms)
                continue
            # A message that has not arrived is sent again, and counts once.
            users = [each for each in seen["messages"] if each["role"] == "user"]
            if visit % 5 == 0 and last["role"] == "user":
                text = users[-1]["parts"][0]["text"]
                seen = await self._clients.do(
                    name, "send", text=text, messageId=users[-1]["id"], ms=ms
                )
            else:
                seen = await self._clients.do(name, "resume", ms=ms)
            await asyncio.sleep(0.05)
        raise AssertionError(seen)

    async def _ag_ui(self, name: str, number: str) -> Seen:
        expected = [f"Read {number}", before(number), "tea", answer(number)]
        await self._clients.make("ag-ui", name, url=f"{self._url}/ag-ui/clerk", threadId=name)
        await self._clients.do(name, "say", id="m1", text=expected[0])
        seen: Seen = {"interrupts": []}
        for visit in range(10_000):
            resume = [
                {"interruptId": each["id"], "status": "resolved", "payload": {"answer": "tea"}}
                for each in seen["interrupts"]
            ]
            seen = await self._clients.do(
                name, "run", ms=self._moment(visit), **({"resume": resume} if resume else {})
            )
            told = [each.get("content") or "" for each in seen["messages"]]
            assert len(told) <= len(expected), (number, told)
            assert all(
                whole.startswith(each) for whole, each in zip(expected, told, strict=False)
            ), (number, told)
            if told == expected and "RUN_FINISHED" in [each["type"] for each in seen["events"]]:
                return seen
            await asyncio.sleep(0.05)
        raise AssertionError(seen)


async def chats_over_kills(
    cli: Cli,
    nursery: Nursery,
    client: Client,
    clients: ChatClients,
    folder: Path,
    *,
    chats: int,
    at_once: int,
    visits: int,
    pauses: tuple[float, float],
    kills: int | None = None,
    requests: int = 0,
) -> tuple[int, dict[str, int]]:
    """Hold so many chats, each with its own text and one run; return the requests, and how often
    what was killed.

    Where `kills` is given, there are just so many, and chats go on until they have been. They go on
    until there have been `requests`, too: how many a chat takes is chance.
    """
    with ScriptedModel(reply) as model:
        agent = folder / "clerk.prompty"
        agent.write_text(AGENT.format(endpoint=model.openai_endpoint))
        address, queue = client.service_client.config.target_host, f"chats-{uuid.uuid4()}"
        job = WorkerJob(address=address, task_queue=queue, folder=str(folder))
        ground = Ground(cli, nursery, job, agent, gateways=2, victims=("gateway", "worker"))
        balancer = Balancer(ground.ports)
        pages = Pages(clients, f"http://127.0.0.1:{balancer.port}", queue, (30, 900), visits)
        begun = 0

        async def play() -> None:
            nonlocal begun
            while (
                begun < chats
                or pages.requests < requests
                or sum(ground.kills.values()) < (kills or 0)
            ):
                begun += 1
                await pages.play(begun)

        async with balancer.open(), ground.killing(pauses, math.inf if kills is None else kills):
            await asyncio.gather(*(play() for _ in range(at_once)))
    await ground.has_runs(client, begun, " AND WorkflowType = 'perdure.AgentRun'")
    return pages.requests, ground.kills
