"""MCP tasks whose gateway and worker are killed while they are under way, by clients that come back."""

from __future__ import annotations

import asyncio
import math
import random
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

from mcp import Client, types
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from pydantic import BaseModel, ConfigDict, Field
from temporalio.client import Client as TemporalClient

from perdure.gateway.mcp_server import TASKS, TOOL_USE
from perdure.testing import ScriptedModel, ScriptedReply, ScriptedRequest, says

from .command_line import Cli, Started
from .commands import ForkedCommand
from .dev_server import free_port
from .worker_process import WorkerJob
from .workers import Nursery

SECONDS = 120
"""In which a task is done, whatever is killed."""
MODEL_SECONDS = 1.0
AGENT = """---
name: clerk
model: {{id: m, connection: {{kind: key, endpoint: "{endpoint}"}}}}
inputs: [{{name: question, kind: string, required: true}}]
metadata: {{perdure: {{maxLlmRetries: 20, retryBaseSeconds: 0.1}}}}
---
user:
{{{{question}}}}
"""
T = TypeVar("T")


class Answer(BaseModel):
    """Whatever a method of the extension answers."""

    model_config = ConfigDict(extra="allow")


class Ask(types.Request[Any, Any]):
    """A request of the extension."""

    method: str
    params: dict[str, Any]


class Created(types.Result):
    """The answer to a call that is a task."""

    result_type: Literal["task"] = Field(alias="resultType")
    task_id: str = Field(alias="taskId")
    status: str


class Tasks(ClientExtension):
    """A client that knows tasks, and asks for them itself."""

    identifier = TASKS

    def claims(self) -> tuple[ResultClaim[Created], ...]:
        async def refuse(created: Created, ctx: ClaimContext) -> types.CallToolResult:
            raise AssertionError("the test asks for the task itself")

        return (ResultClaim(result_type="task", model=Created, resolve=refuse),)


async def ask(client: Client, method: str, **params: Any) -> dict[str, Any]:
    """Ask a method of the extension."""
    answer = await client.session.send_request(Ask(method=method, params=params), Answer)  # type: ignore[arg-type]
    return answer.model_dump(by_alias=True)


def reply(request: ScriptedRequest) -> ScriptedReply:
    """The question, answered."""
    return says(f"It is {request.body['messages'][-1]['content']}.", delay=MODEL_SECONDS)


class Ground:
    """A gateway and a worker, each a process that is killed and started again."""

    def __init__(
        self, cli: Cli, nursery: Nursery, folder: Path, address: str, endpoint: str, victims: Sequence[str]
    ) -> None:
        self.queue = f"tasks-{uuid.uuid4()}"
        self.kills = dict.fromkeys(victims, 0)
        self._cli, self._nursery, self._folder = cli, nursery, folder
        self._job = WorkerJob(address=address, task_queue=self.queue, folder=str(folder))
        self._port = free_port()
        self._file = folder / "clerk.prompty"
        self._file.write_text(AGENT.format(endpoint=endpoint))
        self._gateway: Started | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/mcp/"

    async def _serve(self) -> None:
        """Start the gateway at its port."""
        port = str(self._port)
        self._gateway = await self._cli.start("serve", str(self._file), "--port", port, "--task-queue", self.queue)
        await self._gateway.says("Gateway: ")

    @asynccontextmanager
    async def killing(self, pauses: tuple[float, float], most: float) -> AsyncIterator[None]:
        """While the block runs, kill the victims in turn, a pause after each is there again, `most` times."""
        await self._serve()
        worker = await self._nursery.start(self._job)

        async def kill() -> None:
            nonlocal worker
            while sum(self.kills.values()) < most:
                await asyncio.sleep(random.uniform(*pauses))
                which = min(self.kills, key=lambda one: self.kills[one])
                self.kills[which] += 1
                if which == "worker":
                    worker.kill()
                    worker = await self._nursery.start(self._job)
                    continue
                assert self._gateway is not None
                assert isinstance(self._gateway.process, ForkedCommand)
                await self._gateway.process.close()
                await self._serve()

        killing = asyncio.create_task(kill())
        try:
            yield
        finally:
            killing.cancel()
            await asyncio.wait([killing])
            if not killing.cancelled():
                killing.result()

    async def play(self, question: str) -> str:
        """Call the agent as a task, and come back until there is its result; return that."""
        async with asyncio.timeout(SECONDS):
            meta: Any = {TOOL_USE: f"{self.queue}-{question}"}
            created = await self._until_done(
                lambda client: client.session.call_tool("clerk", {"question": question}, meta=meta, allow_claimed=True)
            )
            assert isinstance(created, Created), created
            while True:
                now = await self._until_done(lambda client: ask(client, "tasks/get", taskId=created.task_id))
                if now["status"] != "working":
                    break
                await asyncio.sleep(0.2)
        assert now["status"] == "completed", now
        text: str = now["result"]["content"][0]["text"]
        return text

    async def _until_done(self, act: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        """Return what comes of it, by a new connection each time: those before may have gone with the gateway."""
        while True:
            try:
                async with Client(self.url, extensions=[Tasks()], mode="2026-07-28") as client:
                    return await act(client)
            except BaseExceptionGroup as error:
                if error.subgroup(AssertionError):
                    raise
            except AssertionError:
                raise
            except Exception:
                pass  # Nobody is there, or it has gone in the middle: that is asked again.
            await asyncio.sleep(0.2)


async def tasks_over_kills(
    cli: Cli,
    nursery: Nursery,
    client: TemporalClient,
    folder: Path,
    *,
    tasks: int,
    at_once: int,
    pauses: tuple[float, float],
    most: float = math.inf,
    victims: Sequence[str] = ("gateway", "worker"),
) -> dict[str, int]:
    """Play so many tasks; each has its own answer, and one run. Return how often what was killed."""
    with ScriptedModel(reply) as model:
        address = client.service_client.config.target_host
        ground, places = (
            Ground(cli, nursery, folder, address, model.openai_endpoint, victims),
            asyncio.Semaphore(at_once),
        )

        async def play(number: int) -> str:
            async with places:
                return await ground.play(f"number {number}")

        async with ground.killing(pauses, most):
            answers = await asyncio.gather(*map(play, range(tasks)))
    assert answers == [f"It is number {number}." for number in range(tasks)]
    query = f"TaskQueue = '{ground.queue}'"
    while (await client.count_workflows(query)).count < tasks:  # The server's lists are late.
        await asyncio.sleep(0.1)
    assert (await client.count_workflows(query)).count == tasks
    return ground.kills
