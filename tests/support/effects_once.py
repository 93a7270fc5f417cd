"""Runs whose tools have effects that can be counted, while their workers are killed at random
moments.
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from temporalio.client import Client

from perdure.client import RunHandle, start_run
from perdure.json_types import JsonObject
from perdure.messages import Message
from perdure.options import RunOptions
from perdure.testing import ScriptedModel, ScriptedReply, asks, call, says

from .agents import QUESTION, scripted_agent
from .commands import ForkedProcess
from .worker_process import WorkerJob
from .workers import Nursery, read_diary

ENTRY = {"name": "text", "in": "query", "required": True, "schema": {"type": "string"}}
KEY = {"name": "Idempotency-Key", "in": "header", "schema": {"type": "string"}}
ONCE, REPEATABLE = ("pay", "add_entry"), ("step", "put_entry")


@dataclass
class Ledger:
    """An HTTP service that counts what it was asked to do."""

    added: Counter[str] = field(default_factory=Counter)
    """Text → entries that were added; each is one too many from the second on."""
    put: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Text → the idempotency keys that it came with."""
    url: str = ""

    def specification(self) -> JsonObject:
        answer = {"200": {"description": "noted"}}
        return {
            "openapi": "3.1.0",
            "info": {"title": "ledger", "version": "1"},
            "servers": [{"url": self.url}],
            "paths": {
                "/entries": {
                    "post": {
                        "operationId": "add_entry",
                        "parameters": [ENTRY],
                        "responses": answer,
                    },
                    "put": {
                        "operationId": "put_entry",
                        "parameters": [ENTRY, KEY],
                        "responses": answer,
                    },
                }
            },
        }


@contextmanager
def ledger() -> Iterator[Ledger]:
    """A ledger that is served on loopback for as long as the block runs."""
    noted, lock = Ledger(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(json.dumps(noted.specification()).encode())

        def do_POST(self) -> None:
            self._note()

        def do_PUT(self) -> None:
            self._note()

        def _note(self) -> None:
            text = parse_qs(urlsplit(self.path).query)["text"][0]
            with lock:
                if self.command == "POST":
                    noted.added[text] += 1
                else:
                    noted.put[text].add(self.headers.get("Idempotency-Key", ""))
            threading.Event().wait(random.uniform(0.0, 0.2))
            self._answer(b"noted")

        def _answer(self, content: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments: Any) -> None:
            """Silent."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client was killed while it was answered: that is what the tests do."""

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    noted.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield noted
    finally:
        server.shutdown()
        server.server_close()


def conversation(id: str, rounds: int = 2) -> list[ScriptedReply]:
    """In each round: every tool alone, then all at once."""
    replies: list[ScriptedReply] = []
    for number in range(rounds):
        names = [*ONCE, *REPEATABLE]
        replies += [
            asks(call(name, f"{name}-{number}", text=f"{id}/{name}-{number}")) for name in names
        ]
        replies.append(
            asks(
                *(
                    call(name, f"{name}-all-{number}", text=f"{id}/{name}-all-{number}")
                    for name in names
                )
            )
        )
    return [*(each.model_copy(update={"delay": 0.05}) for each in replies), says("All done.")]


@dataclass
class Crowd:
    """Runs that are under way together on one queue, and the workers that come and go."""

    client: Client
    nursery: Nursery
    folder: Path
    address: str
    queue: str

    async def start(self, model: ScriptedModel, kept: Ledger, id: str) -> RunHandle:
        (self.folder / id).mkdir()
        openapi = {"name": "ledger", "kind": "openapi", "specification": f"{kept.url}/openapi.json"}
        agent = scripted_agent(model, [_function("pay"), _function("step"), openapi])
        options = RunOptions(
            parallel_tool_calls=True, max_iterations=20, max_llm_retries=10, retry_base_seconds=0.1
        )
        return await start_run(
            self.client,
            agent,
            messages=list(QUESTION),
            task_queue=self.queue,
            id=id,
            options=options,
        )

    async def worker(self) -> ForkedProcess:
        job = WorkerJob(
            address=self.address, task_queue=self.queue, folder=str(self.folder), linger=0.2
        )
        return await self.nursery.start(job)

    @asynccontextmanager
    async def killing(
        self, workers: int, pauses: tuple[float, float]
    ) -> AsyncIterator[list[float]]:
        """Workers of which one is killed and replaced again and again while the block runs.

        The block ends with an error where that is not possible.
        """
        alive, kills = [await self.worker() for _ in range(workers)], list[float]()

        async def kill() -> None:
            while True:
                await asyncio.sleep(random.uniform(*pauses))
                alive.pop(random.randrange(len(alive))).kill()
                kills.append(asyncio.get_running_loop().time())
                alive.append(await self.worker())

        async with asyncio.TaskGroup() as group:
            killing = group.create_task(kill())
            yield kills
            killing.cancel()

    def notes(self, id: str) -> list[JsonObject]:
        return [entry for entry in read_diary(self.folder / id) if entry["event"] == "start"]


def _function(name: str) -> JsonObject:
    return {"name": name, "kind": "function", "parameters": [{"name": "text", "kind": "string"}]}


def check(crowd: Crowd, kept: Ledger, ids: list[str]) -> None:
    """No effect of a call that is not to be repeated came twice, and each other call kept its one
    key.
    """
    twice = {text: count for text, count in kept.added.items() if count > 1}
    assert not twice, f"entries that were added more than once: {twice}"
    assert all(len(keys) == 1 and "" not in keys for keys in kept.put.values()), kept.put
    for id in ids:
        started, keys = Counter[str](), defaultdict[str, set[str]](set)
        for entry in crowd.notes(id):
            started[entry["call"]] += 1
            keys[entry["call"]].add(entry["key"])
        paid = {name: count for name, count in started.items() if name.startswith("pay")}
        assert all(count == 1 for count in paid.values()), paid
        assert all(len(known) == 1 for known in keys.values()), keys


def results(messages: list[Message]) -> int:
    return sum(message.role == "tool" for message in messages)
