"""Remote agents for tests, served on loopback by the official server; what they do is in the
message they get.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import uvicorn
from a2a.helpers import (
    new_data_part,
    new_raw_part,
    new_text_artifact,
    new_text_message,
    new_text_part,
    new_url_part,
)
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Message,
    Task,
    TaskState,
    TaskStatus,
)
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send


@asynccontextmanager
async def served(app: ASGIApp, port: int = 0) -> AsyncIterator[str]:
    """Serve the application on loopback for as long as the block runs; gives its base URL. It ends
    at once.
    """
    with socket.create_server(("127.0.0.1", port)) as listener:
        server = _Server(
            uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=0)
        )
        serving = asyncio.create_task(server._serve([listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = server.force_exit = True
            server.leave.set()
            await serving


class _Server(uvicorn.Server):
    """Ends as soon as it is told to, not at its next look at the clock."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.leave = asyncio.Event()

    async def main_loop(self) -> None:
        await self.leave.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.transport.close()  # type: ignore[union-attr]


@dataclass
class RemoteAgent(AgentExecutor):
    """An agent that does what a message says: `echo TEXT`, `hold`, `ask`, `fail` …"""

    binding: str = "JSONRPC"
    key: str | None = None
    """The bearer token without which it answers 401."""
    executions: list[str] = field(default_factory=list)
    """The id of each message that it has begun to work on."""
    cancelled: list[str] = field(default_factory=list)
    """The id of each task that it was told to cancel."""
    requests: list[str] = field(default_factory=list)
    """Path or JSON-RPC method of each request."""
    refuse: int | None = None
    """A status that all requests but that for the card are answered with."""
    released: asyncio.Event = field(default_factory=asyncio.Event)
    """Lets `hold` end."""

    def __post_init__(self) -> None:
        self.store = InMemoryTaskStore()

    def card(self, url: str) -> AgentCard:
        """The card that it shows at `url`."""
        return AgentCard(
            name="Weather office",
            description="Knows the weather.",
            version="1.0",
            supported_interfaces=[
                AgentInterface(url=f"{url}/grpc", protocol_binding="GRPC", protocol_version="1.0"),
                AgentInterface(
                    url=f"{url}/a2a", protocol_binding=self.binding, protocol_version="1.0"
                ),
            ],
            capabilities=AgentCapabilities(streaming=False),
            default_input_modes=["text/plain"],
            default_output_modes=["text/plain"],
            skills=[
                AgentSkill(
                    id="rain", name="Rain", description="Says where it rains.", tags=["weather"]
                )
            ],
        )

    @asynccontextmanager
    async def served(self, port: int = 0, *, card: AgentCard | None = None) -> AsyncIterator[str]:
        """Serve the agent; gives the base URL."""
        app = _Guarded(self)
        async with served(app, port) as url:
            shown = card or self.card(url)
            handler = DefaultRequestHandler(
                agent_executor=self, task_store=self.store, agent_card=shown
            )
            routes = (
                create_rest_routes(handler, path_prefix="/a2a")
                if self.binding == "HTTP+JSON"
                else []
            )
            app.inner = Starlette(
                routes=[
                    *create_agent_card_routes(shown),
                    *create_jsonrpc_routes(handler, "/a2a"),
                    *routes,
                ]
            )
            try:
                yield url
            finally:
                await handler.aclose()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Do what the message says."""
        assert context.message is not None
        assert context.task_id is not None
        assert context.context_id is not None
        self.executions.append(context.message.message_id)
        word, _, rest = context.get_user_input().partition(" ")
        if word == "direct":
            await event_queue.enqueue_event(new_text_message(rest))
            return
        if context.current_task is None:
            await event_queue.enqueue_event(
                _begun(context.task_id, context.context_id, context.message)
            )
        task = TaskUpdater(event_queue, context.task_id, context.context_id)
        await task.start_work(task.new_agent_message([new_text_part("I look out of the window.")]))
        await self._work(word, rest, task)

    async def _work(self, word: str, rest: str, task: TaskUpdater) -> None:
        said = task.new_agent_message([new_text_part(rest)]) if rest else None
        match word:
            case "ask":
                await task.requires_input(task.new_agent_message([new_text_part("Which city?")]))
            case "auth":
                await task.requires_auth(task.new_agent_message([new_text_part("Sign in first.")]))
            case "fail":
                await task.failed(said)
            case "reject":
                await task.reject(said)
            case "stop":
                await task.cancel(said)
            case "crash":
                raise RuntimeError("The window is broken.")
            case "pieces":
                await task.add_artifact([new_text_part("It ra")], artifact_id="a")
                await task.add_artifact([new_text_part("ins.")], artifact_id="a", append=True)
                await task.complete()
            case "parts":
                await task.add_artifact([new_text_part("See:"), new_data_part({"rain": [1, 2.5]})])
                await task.add_artifact(
                    [
                        new_raw_part(b"\x89PNG", media_type="image/png"),
                        new_raw_part(b"x", "a/b", "f"),
                    ]
                )
                await task.add_artifact(
                    [new_url_part("https://x.example/f.pdf"), new_url_part("file:///etc/passwd")]
                )
                await task.complete(task.new_agent_message([new_text_part("Done.")]))
            case "hold":
                await self.released.wait()
                await task.add_artifact([new_text_part("It rained all the while.")])
                await task.complete()
            case "work":
                await asyncio.sleep(random.uniform(0.0, 1.0))
                await task.add_artifact([new_text_part("work")])
                await task.complete()
            case _:
                await task.add_artifact([new_text_part(rest or word)])
                await task.complete()

    async def is_cancelled(self) -> bool:
        """Whether it was told to cancel a task."""
        return bool(self.cancelled)

    async def finish(self, task_id: str, text: str) -> None:
        """End a task while the agent is not served, as one does that keeps its tasks in a
        database.
        """
        context = ServerCallContext()
        task = await self.store.get(task_id, context)
        assert task is not None
        task.status.CopyFrom(TaskStatus(state=TaskState.TASK_STATE_COMPLETED))
        task.artifacts.append(new_text_artifact("a", text))
        await self.store.save(task, context)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Stop working."""
        assert context.task_id is not None
        assert context.context_id is not None
        self.cancelled.append(context.task_id)
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def _begun(task_id: str, context_id: str, message: Message) -> Task:
    status = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
    return Task(id=task_id, context_id=context_id, status=status, history=[message])


class Later:
    """A server whose application is made when its URL is known."""

    def __init__(self) -> None:
        self.app: ASGIApp = Starlette()
        self.url = ""
        self._serving = served(self)

    async def __aenter__(self) -> Self:
        self.url = await self._serving.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._serving.__aexit__(*error)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


@dataclass
class _Guarded:
    """Looks at the credentials and notes what is asked, before the agent's own routes."""

    agent: RemoteAgent
    inner: ASGIApp = field(default_factory=Starlette)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        is_card = scope["path"].startswith("/.well-known")
        self.agent.requests.append("card" if is_card else scope["path"])
        if self.agent.key and headers.get(b"authorization") != f"Bearer {self.agent.key}".encode():
            await PlainTextResponse("no", 401)(scope, receive, send)
        elif self.agent.refuse and not is_card:
            await PlainTextResponse("<html>not now", self.agent.refuse)(scope, receive, send)
        else:
            await self.inner(scope, receive, send)
