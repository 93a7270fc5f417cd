"""A worker, a model that repeats what it is told, and sessions on them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import Client

from perdure.agents import Agent
from perdure.client import Session, session
from perdure.testing import ScriptedModel, ScriptedReply, ScriptedRequest, asks, call, says
from tests.support.agents import scripted_agent
from tests.support.gates import Gate
from tests.support.stage import Stage

HOLD = "hold"
"""Whoever says it lets the run wait in a tool, until the gate opens."""
REFUSED = "refuse"
"""The model's provider refuses the key of whoever says it."""


def repeats(request: ScriptedRequest) -> ScriptedReply:
    """Says again what the user has said last, JSON as it is; calls the tool first when that is
    `HOLD`.
    """
    last = request.messages[-1]
    if last.role == "user" and last.text == HOLD:
        return asks(call("hold", f"hold-{len(request.messages)}"))
    if last.text == REFUSED:
        return ScriptedReply(status=401)
    user = next(message.text for message in reversed(request.messages) if message.role == "user")
    return says(user if user.startswith("{") else f"You said {user}.")


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(repeats) as model:
        yield model


@pytest.fixture(scope="module")
def agent(model: ScriptedModel) -> Agent:
    return scripted_agent(model, ["hold"], instructions="system:\nRepeat it.")


class Talk:
    """Sessions on one task queue with a worker, whose tool `hold` waits for the gate."""

    def __init__(self, client: Client, agent: Agent, task_queue: str) -> None:
        self.client = client
        self.agent = agent
        self.task_queue = task_queue
        self._gate = Gate()

    def session(self, id: str | None = None, agent: Any = ..., **more: Any) -> Session:
        """The session of that id, or a new one."""
        agent = self.agent if agent is ... else agent
        return session(
            self.client, agent, id or f"talk-{uuid4()}", task_queue=self.task_queue, **more
        )

    async def hold(self, text: str = "") -> str:
        """The tool."""
        gate = self._gate
        return str(await gate())

    @contextmanager
    def gate(self) -> Iterator[Gate]:
        """A gate for the tool: it is open again at the end of the block."""
        self._gate = Gate()
        try:
            yield self._gate
        finally:
            self._gate.open.set()


@pytest.fixture(scope="module")
async def talk(module_stage: Stage, agent: Agent) -> AsyncIterator[Talk]:
    talk = Talk(module_stage.client, agent, module_stage.task_queue)
    async with module_stage.worker({"hold": talk.hold}):
        yield talk


@pytest.fixture(scope="module")
def module_stage(server: Any) -> Stage:
    return Stage(server.client, f"test-{uuid4()}")


Said = Callable[[list[Any]], list[str]]
