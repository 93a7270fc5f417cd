"""Several senders talk to one session at once: each one's messages arrive in order, none is lost,
none comes twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure import RunNotFound, SessionError
from perdure.agents import Agent
from perdure.client import RunHandle, Session, connect, get_run, session
from perdure.messages import Message
from perdure.protocol.session import WhileBusy
from perdure.testing import says
from perdure.worker import create_worker
from tests.support.agents import scripted_agent
from tests.support.dev_server import DevServer
from tests.support.waiting import wait_for

from ...support.agents import Scripted
from .conftest import Talk

SENDERS = 5

Disturb = Callable[[int], Coroutine[None, None, None]]


async def talk_at_once(
    open: Callable[[], Session], each: int, disturb: Disturb, busy: WhileBusy = "queue"
) -> None:
    """Let every sender say so many things, through a `Session` of its own; `disturb` is called
    after each answer.
    """
    ended = 0

    async def send(name: str) -> None:
        nonlocal ended
        mine = open()
        for number in range(each):
            text = f"{name}.{number}"
            run = await _sent(mine, text, busy)
            answer = (await run.result()).output
            assert answer == f"You said {text}." or busy == "steer"
            ended += 1
            await disturb(ended)

    async with asyncio.TaskGroup() as group:
        for sender in range(SENDERS):
            group.create_task(send(f"sender-{sender}"))


async def _sent(session: Session, text: str, busy: WhileBusy) -> RunHandle:
    while True:
        try:
            return await session.send(text, message_id=text, while_busy=busy)
        except SessionError as error:
            if error.kind != "unconfirmed":
                raise
        except RPCError as error:
            if error.status not in (
                RPCStatusCode.UNAVAILABLE,
                RPCStatusCode.UNKNOWN,
                RPCStatusCode.INTERNAL,
            ):
                raise


def check(messages: list[Message], each: int, busy: WhileBusy = "queue") -> None:
    """Every message is there once, in its sender's order; where each has a turn of its own, its
    answer follows it.
    """
    said = [message.text for message in messages if message.role == "user"]
    for sender in range(SENDERS):
        mine = [text for text in said if text.startswith(f"sender-{sender}.")]
        assert mine == [f"sender-{sender}.{number}" for number in range(each)]
    assert len(said) == SENDERS * each
    assert busy == "steer" or [
        message.text for message in messages if message.role == "assistant"
    ] == [f"You said {x}." for x in said]


async def test_each_message_is_one_turn_although_older_runs_are_gone(forgetful: Talk) -> None:
    id = f"talk-{uuid4()}"

    async def nothing(turn: int) -> None:
        """Nothing disturbs."""

    await talk_at_once(lambda: forgetful.session(id), 3, nothing)
    await wait_for(lambda: _is_gone(forgetful.client, f"{id}/15"))
    talk = forgetful.session(id)
    check(await talk.messages(), 3)
    with pytest.raises(RunNotFound):
        await (await talk.runs())[0].messages()
    run = await talk.send("more")
    assert (run.id, (await run.result()).output) == (f"{id}/16", "You said more.")
    assert len((await run.result()).messages) == 33


@pytest.fixture
async def forgetful(client: Client, agent: Agent) -> AsyncIterator[Talk]:
    """In a namespace that keeps a closed run for a second, and does not know perdure's search
    attributes.
    """
    name = f"forgetful-{uuid4()}"
    request = RegisterNamespaceRequest(namespace=name)
    request.workflow_execution_retention_period.FromTimedelta(timedelta(seconds=1))
    await client.workflow_service.register_namespace(request, retry=True)
    there = await connect(client.service_client.config.target_host, namespace=name)
    talk = Talk(there, agent, f"test-{uuid4()}")
    await wait_for(lambda: _is_known(there))
    async with create_worker(there, task_queue=talk.task_queue, tools={"hold": talk.hold}):
        yield talk


async def _is_known(client: Client) -> bool:
    try:
        await client.get_workflow_handle("nobody").describe()
    except RPCError as error:
        return "workflow" in error.message
    return True


async def _is_gone(client: Client, id: str) -> bool:
    try:
        await client.get_workflow_handle(id).describe()
    except RPCError as error:
        return error.status is RPCStatusCode.NOT_FOUND
    return False


async def test_large_messages_at_once(tmp_path: Path, scripted: Scripted) -> None:
    """Temporal ends a workflow whose task records more than 4 MiB, as that of six such updates
    would, unless a server lets them wait. One process sends them one after the other.
    """
    agent = scripted_agent(scripted(lambda request: says("Read.")))
    texts = [f"{number} {'x' * 800_000}" for number in range(6)]
    id = task_queue = f"talk-{uuid4()}"
    async with DevServer(
        tmp_path / "temporal.db", "history.maxInFlightUpdatePayloads=20971520"
    ) as server:

        def send(text: str) -> asyncio.Task[RunHandle]:
            return asyncio.create_task(
                session(server.client, agent, id, task_queue=task_queue, patience=60).send(text)
            )

        talk = session(server.client, agent, id, task_queue=task_queue)
        async with create_worker(server.client, task_queue=task_queue):
            await (await talk.send("Read these.")).result()
        sending = [send(text) for text in texts]
        await asyncio.sleep(0.5)
        async with create_worker(server.client, task_queue=task_queue):
            for run_id in {run.id for run in await asyncio.gather(*sending)}:
                await get_run(server.client, run_id).result()
            said = [message.text for message in await talk.messages() if message.role == "user"]
        assert said[0] == "Read these."
        assert sorted(said[1:]) == texts
