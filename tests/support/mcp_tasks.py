"""MCP tasks whose gateway and worker are killed while they are under way, by clients that come
back.
"""

from __future__ import annotations

import asyncio
import math
import uuid
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import httpx2
from mcp import Client, types
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from pydantic import BaseModel, ConfigDict, Field
from temporalio.client import Client as TemporalClient

from perdure.gateway.mcp_server import TASKS, TOOL_USE
from perdure.testing import ScriptedModel, ScriptedReply, ScriptedRequest, says

from .command_line import Cli
from .gateway_kills import Ground
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

    name_param: ClassVar[str | None] = "taskId"
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


class MessageQueue:
    """Where tasks are given to the agent of a gateway that comes and goes."""

    def __init__(self, url: str, name: str) -> None:
        self._url, self._name = url, name

    async def play(self, question: str) -> str:
        """Call the agent as a task, and come back until there is its result; return that."""
        async with asyncio.timeout(SECONDS):
            meta: Any = {TOOL_USE: f"{self._name}-{question}"}
            created = await self._until_done(
                lambda client: client.session.call_tool(
                    "clerk", {"question": question}, meta=meta, allow_claimed=True
                )
            )
            assert isinstance(created, Created), created
            while True:
                now = await self._until_done(
                    lambda client: ask(client, "tasks/get", taskId=created.task_id)
                )
                if now["status"] != "working":
                    break
                await asyncio.sleep(0.2)
        assert now["status"] == "completed", now
        text: str = now["result"]["content"][0]["text"]
        return text

    async def _until_done(self, act: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        """Return what comes of it, by a new connection each time: those before may have gone with
        the gateway.
        """
        while True:
            try:
                async with Client(self._url, extensions=[Tasks()], mode="2026-07-28") as client:
                    return await act(client)
            except* (
                httpx2.TransportError
            ):  # Nobody is there, or it has gone in the middle: that is asked again.
                pass
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
    """Play so many tasks; each has its own answer, and one run. Return how often what was
    killed.
    """
    with ScriptedModel(reply) as model:
        agent = folder / "clerk.prompty"
        agent.write_text(AGENT.format(endpoint=model.openai_endpoint))
        address, queue = client.service_client.config.target_host, f"tasks-{uuid.uuid4()}"
        job = WorkerJob(address=address, task_queue=queue, folder=str(folder))
        ground, places = (
            Ground(cli, nursery, job, agent, victims=victims),
            asyncio.Semaphore(at_once),
        )
        desk = MessageQueue(f"http://127.0.0.1:{ground.ports[0]}/mcp/", queue)

        async def play(number: int) -> str:
            async with places:
                return await desk.play(f"number {number}")

        async with ground.killing(pauses, most):
            answers = await asyncio.gather(*map(play, range(tasks)))
    assert answers == [f"It is number {number}." for number in range(tasks)]
    await ground.has_runs(client, tasks)
    return ground.kills
