"""A session under test: what is said to it, by its updates, and what its histories tell."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle, WorkflowHistory, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from perdure.agents import Agent
from perdure.client import RunHandle, get_run
from perdure.client.run_input import new_run
from perdure.client.sessions.reading import Reader
from perdure.history.session import SessionLink, read_session_link
from perdure.messages import Message
from perdure.options import RunOptions
from perdure.protocol import names
from perdure.protocol.run import RecordedOptions
from perdure.protocol.search_attributes import ALL
from perdure.protocol.session import (
    SessionInput,
    SessionMessage,
    SessionSetup,
    SessionStatus,
    Taken,
)
from perdure.testing import ScriptedModel, ScriptedReply, ScriptedRequest, asks, says
from perdure.worker import create_worker

from .agents import scripted_agent
from .gates import Gate
from .noted import NotingRunner, Stands
from .stage import FEW_POLLS, replay
from .waiting import wait_for

INSTRUCTIONS = [Message.system("You are helpful.")]


def talk(request: ScriptedRequest) -> ScriptedReply:
    """Answers what was said last; `hold` calls a tool that waits, `fail` fails, `long N` takes N
    characters.
    """
    said = [message.text for message in request.messages if message.role == "user"][-1]
    word, _, rest = said.partition(" ")
    if word == "hold" and request.messages[-1].role != "tool":
        return asks("gate")
    if word == "fail":
        return ScriptedReply(status=400)
    return says("x" * int(rest) if word == "long" else f"re: {said}")


def setup_of(
    agent: Agent, instructions: list[Message] = INSTRUCTIONS, **options: Any
) -> SessionSetup:
    run = new_run(agent, None, RunOptions(retry_base_seconds=0.0, **options), instructions)
    return SessionSetup(
        agent=run.agent, messages=run.messages, options=RecordedOptions.model_validate(run.options)
    )


class SessionStage:
    """One session on a queue of its own, its model, and a tool at which its runs can be held."""

    def __init__(self, client: Client, id: str, model: ScriptedModel) -> None:
        self.client = client
        self.id = id
        self.model = model
        self.gate = Gate()
        self.agent = scripted_agent(model, ["gate"])
        self._sent = 0
        self.stands = Stands()

    @property
    def handle(self) -> WorkflowHandle[Any, SessionStatus]:
        return self.client.get_workflow_handle(self.id, result_type=SessionStatus)

    @asynccontextmanager
    async def worker(self, **more: Any) -> AsyncIterator[None]:
        settings = {
            "tool_loop": asyncio.get_running_loop(),
            "unsandboxed_workflow_runner": NotingRunner(self.stands),
            **FEW_POLLS,
            **more,
        }
        async with create_worker(
            self.client, task_queue=self.id, tools={"gate": self.gate}, **settings
        ):
            yield

    async def start(self, setup: SessionSetup | None = None, **fields: Any) -> None:
        input = SessionInput(
            setup=setup or setup_of(self.agent),
            search_attributes=[key.name for key in ALL],
            **fields,
        )
        await self.client.start_workflow(
            names.SESSION_WORKFLOW, input, id=self.id, task_queue=self.id
        )

    async def send(self, text: str, **fields: Any) -> Taken:
        """Raises `ApplicationError` for a message that is not taken."""
        self._sent += 1
        return await self.update(
            names.SEND, SessionMessage(**{"text": text, "id": f"message-{self._sent}", **fields})
        )

    async def update(self, name: str, *arguments: Any) -> Any:
        type_: Any = Taken if name == names.SEND else SessionStatus
        while True:
            try:
                return await self.handle.execute_update(name, args=arguments, result_type=type_)
            except WorkflowUpdateFailedError as error:
                # Clients repeat an update that a link has accepted as it ended, as well.
                if getattr(error.cause, "type", "") != "AcceptedUpdateCompletedWorkflow":
                    raise error.cause from None

    def run(self, turn: int) -> RunHandle:
        return get_run(self.client, f"{self.id}/{turn}")

    async def said(self, text: str, **fields: Any) -> str:
        """Begin a turn, and wait for its answer."""
        taken = await self.send(text, **fields)
        assert taken.became == "turn"
        return str((await self.run(taken.turn).result()).output)

    async def status(self) -> SessionStatus:
        return await self.handle.query(names.STATUS, result_type=SessionStatus)

    async def idle(self, timeout: float = 20.0) -> SessionStatus:
        async def stands() -> SessionStatus | None:
            status = await self.status()
            return status if status.status in ("waiting", "ended") else None

        found = await wait_for(stands, timeout=timeout)
        assert found is not None
        return found

    async def run_is_asked_to_end(self) -> bool:
        """Whether the first turn has been asked to."""
        described = await self.client.get_workflow_handle(f"{self.id}/1").describe()
        return described.raw_description.workflow_extended_info.cancel_requested

    async def links(self) -> list[SessionLink]:
        """All links, from the first."""
        latest = (await self.handle.describe()).run_id
        carried = (await read_session_link(self.client, self.id, latest)).input.carried
        first = carried.first_run_id if carried else latest
        run_id: str | None = first
        found = list[SessionLink]()
        while run_id:
            found.append(await read_session_link(self.client, self.id, run_id))
            run_id = found[-1].next_run_id
        return found

    async def link(self) -> SessionLink:
        """The last one."""
        return (await self.links())[-1]

    async def conversation(self) -> list[str]:
        """What the next turn would begin with: each message's role and text, as short as it can be
        told.
        """
        return shown((await self.link()).conversation.messages)

    async def messages(self) -> list[Message]:
        """The complete conversation, as callers read it."""
        return await Reader(self.client, self.id).messages()

    async def replay(self) -> None:
        """Replay what the session and its turns have recorded; raises when the code would not have
        made it.
        """

        async def histories() -> AsyncIterator[WorkflowHistory]:
            for link in await self.links():
                yield WorkflowHistory(self.id, link.history)
                for turn in link.turns:
                    yield await self.client.get_workflow_handle(
                        turn.run_id, run_id=turn.first_run_id
                    ).fetch_history()

        await replay(self.client, histories(), live=self.stands)


def shown(messages: list[Message]) -> list[str]:
    """Each message in a few words."""
    return [f"{message.role[0]}: {message.text[:40]}" for message in messages]


async def refusal(what: Any) -> str:
    """The kind by which an update is refused."""
    with pytest.raises(ApplicationError) as refused:
        await what
    assert refused.value.type == names.NOT_TAKEN
    kind: str = refused.value.details[0]["kind"]
    return kind
