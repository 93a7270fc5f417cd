"""MCP tasks whose gateway is killed while they are under way, by clients that come back."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import httpx2
from mcp import Client, types
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from pydantic import BaseModel, ConfigDict, Field
from temporalio.client import Client as TemporalClient

from perdure.gateway.mcp_server import TASKS, TOOL_USE
from perdure.json_types import JsonObject
from perdure.testing import ScriptedModel, ScriptedReply, ScriptedRequest, says

from .command_line import Cli, Started
from .commands import ForkedCommand
from .dev_server import free_port
from .waiting import wait_for
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
    params: JsonObject


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


async def ask(client: Client, method: str, **params: Any) -> JsonObject:
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
    cli: Cli, nursery: Nursery, client: TemporalClient, folder: Path, *, tasks: int, kills: int
) -> None:
    """Play so many tasks at once while the gateway is killed so often; each has its own answer, and
    one run.
    """
    with ScriptedModel(reply) as model:
        agent, port = folder / "clerk.prompty", free_port()
        agent.write_text(AGENT.format(endpoint=model.openai_endpoint))
        address, queue = client.service_client.config.target_host, f"tasks-{uuid.uuid4()}"
        await nursery.start(WorkerJob(address=address, task_queue=queue, folder=str(folder)))
        desk = MessageQueue(f"http://127.0.0.1:{port}/mcp/", queue)

        async def serve() -> Started:
            options = ("--port", str(port), "--task-queue", queue)
            gateway = await cli.start("serve", str(agent), *options)
            await gateway.says("Gateway: ")
            return gateway

        gateway = await serve()
        async with asyncio.TaskGroup() as group:
            plays = [group.create_task(desk.play(f"number {n}")) for n in range(tasks)]
            for _ in range(kills):
                await asyncio.sleep(random.uniform(0.1, 0.3))
                assert isinstance(gateway.process, ForkedCommand)
                await gateway.process.close()
                gateway = await serve()
    assert [play.result() for play in plays] == [f"It is number {n}." for n in range(tasks)]

    async def are_listed() -> bool:
        return (await client.count_workflows(f"TaskQueue = '{queue}'")).count == tasks

    await wait_for(are_listed)
