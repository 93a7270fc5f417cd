"""Agents as A2A agents, asked by the protocol's own client."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.compat.v0_3.types import AgentCard as OldCard
from a2a.helpers import get_artifact_text, get_message_text, new_data_part, new_text_message
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from a2a.utils.errors import A2AError, ContentTypeNotSupportedError
from temporalio.client import Client as TemporalClient

from perdure.errors import RunCancelled
from perdure.events import RunEvent
from perdure.gateway.a2a_status import ArtifactText
from perdure.gateway.identity import TokenFile
from perdure.testing import ScriptedReply, ScriptedRequest, asks, call, says

from ..support import needs
from ..support.agents import Scripted, scripted_agent, tool_texts
from ..support.gates import GatedReplies
from ..support.stage import Stage
from ..support.waiting import wait_for
from .conftest import Serve, Served
from .test_own import PAY, TEXT, pay


@asynccontextmanager
async def client_of(
    served: Served, token: str = "", *, streaming: bool = True
) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx.AsyncClient(headers=headers, timeout=60) as http:
        card = await A2ACardResolver(http, f"{served.url}/a2a/tested").get_agent_card()
        yield ClientFactory(ClientConfig(httpx_client=http, streaming=streaming)).create(card)


async def send(client: Client, message: Message) -> list[Any]:
    return [each async for each in client.send_message(SendMessageRequest(message=message))]


def said(text: str, **more: Any) -> Message:
    return new_text_message(text, role=Role.ROLE_USER, **more)


async def test_a_message_is_a_task_whose_text_is_streamed(
    scripted: Scripted, serve_agents: Serve
) -> None:
    model = scripted([says(TEXT, chunk_delay=0.01), says("More.")])
    async with serve_agents(scripted_agent(model)) as served:
        async with client_of(served) as client:
            first = said("Hi")
            seen = await send(client, first)
            task = seen[0].task
            pieces = [each.artifact_update for each in seen if each.HasField("artifact_update")]
            assert "".join(get_artifact_text(each.artifact) for each in pieces) == TEXT
            assert [each.append for each in pieces][:1] == [False]
            assert all(each.append for each in pieces[1:])
            assert seen[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED
            again = await send(client, first)
            assert again[0].task.id == task.id
        async with client_of(served, streaming=False) as client:
            [answer] = await send(client, said("And?", context_id=task.context_id))
            assert answer.task.id == f"{task.context_id}/2"
            assert get_artifact_text(answer.task.artifacts[0]) == "More."
            kept = await client.get_task(GetTaskRequest(id=task.id))
            assert get_artifact_text(kept.artifacts[0]) == TEXT
            with pytest.raises(A2AError, match="There is no run"):
                await client.get_task(GetTaskRequest(id="none"))
    assert len(model.requests) == 2


def test_text_that_does_not_count_is_replaced() -> None:
    def event(type: Any, **data: Any) -> RunEvent:
        return RunEvent(seq=1, type=type, iteration=1, data=data)

    text = ArtifactText(0)
    said = [
        event("llm_start"),
        *(event("token", token=each) for each in ("Let me ", "look.")),
        event("llm_start"),
        *(event("token", token=each) for each in ("It is", " a lamp.")),
        event("done", response="It is a lamp."),
    ]
    assert [text.more(each) for each in said] == [
        None,
        ("Let me ", False),
        ("look.", True),
        None,
        ("It is", False),
        (" a lamp.", True),
        None,
    ]


@pytest.mark.parametrize("ends", ["approved", "cancelled"])
async def test_perdure_asks_an_agent_of_perdures(
    scripted: Scripted, serve_agents: Serve, stage: Stage, ends: str
) -> None:
    """The task has the id of a session's run, `SESSION/1`."""

    def caller(request: ScriptedRequest) -> ScriptedReply:
        told = tool_texts(request.messages)
        if not told or "Paid." in told[-1]:
            return says("All is paid.") if told else asks(call("other", message="Pay 3 euros"))
        ids = dict(re.findall(r'(\w+_id) "([^"]+)"', told[-1]))
        assert ids["task_id"] == f"{ids['context_id']}/1"
        return asks(call("other", "2", message="approve", **ids))

    gate = GatedReplies(asks(call("pay", euros=3)), says("Paid."))
    inner = scripted_agent(scripted(gate), [PAY])
    async with serve_agents(inner, tools={"pay": pay}) as served:
        connection = {"kind": "anonymous", "endpoint": f"{served.url}/a2a/tested"}
        other = {"name": "other", "kind": "a2a", "connection": connection}
        run = await stage.start(scripted_agent(scripted(caller), [other]), cancel_grace=0.5)
        if ends == "approved":
            gate.open.set()
            assert (await run.result()).output == "All is paid."
            return
        await gate.wait_until_reached()
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result()
        query = (
            f"TaskQueue = '{stage.task_queue}' AND WorkflowType = 'perdure.AgentRun' AND "
            "ExecutionStatus = 'Canceled'"
        )
        await wait_for(lambda: ids_of(stage.client, query, but=run.id))


async def ids_of(client: TemporalClient, query: str, *, but: str) -> list[str]:
    return [run.id async for run in client.list_workflows(query) if run.id != but]


async def test_a_card_is_for_clients_of_both_versions(
    scripted: Scripted, serve_agents: Serve, tokens: TokenFile
) -> None:
    agent = scripted_agent(scripted([]))
    async with serve_agents(agent, known=[tokens]) as served, httpx.AsyncClient(timeout=60) as http:
        url = f"{served.url}/a2a/tested"
        written = (await http.get(f"{url}/.well-known/agent-card.json")).json()
        card = await A2ACardResolver(http, url).get_agent_card()
    assert [(each.url, each.protocol_version) for each in card.supported_interfaces] == [
        (url, "1.0"),
        (url, "0.3"),
    ]
    assert card.security_requirements[0].schemes.keys() == {"bearer"}
    old = OldCard.model_validate(written)
    assert (old.url, old.preferred_transport, old.protocol_version) == (url, "JSONRPC", "0.3")
    assert written["securitySchemes"]["bearer"]["type"] == "http"
    assert old.security == [{"bearer": []}]


async def test_the_sdk_speaks_the_older_version_and_the_linter_finds_nothing(
    scripted: Scripted, serve_agents: Serve
) -> None:
    agent = scripted_agent(scripted([says("It is a lamp.")] * 3))
    async with serve_agents(agent) as served, httpx.AsyncClient(timeout=60) as http:
        card = await A2ACardResolver(http, f"{served.url}/a2a/tested").get_agent_card()
        kept = [each for each in card.supported_interfaces if each.protocol_version == "0.3"]
        del card.supported_interfaces[:]
        card.supported_interfaces.extend(kept)
        client = ClientFactory(ClientConfig(httpx_client=http, streaming=True)).create(card)
        seen = await send(client, said("Hi"))
        assert seen[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED
        linter = needs.module("a2a_lint.cli")
        findings, shown = await linter.lint(served.url, True, 60)
    assert [each for each in findings if each["level"] != "info"] == []
    assert linter.summarize(findings)["grade"] == "A"
    assert {"liveRoundTripMs", "streamEvents"} <= shown.keys()


async def test_data_is_read_and_a_file_is_refused(scripted: Scripted, serve_agents: Serve) -> None:
    model = scripted([says("Seen.")])
    async with serve_agents(scripted_agent(model)) as served, client_of(served) as client:
        for file in Part(url="https://example.com/a.pdf"), Part(raw=b"%PDF", filename="a.pdf"):
            told = said("Read it.")
            told.parts.append(file)
            with pytest.raises(ContentTypeNotSupportedError, match=r"a\.pdf"):
                await send(client, told)
        told = said("Look.")
        told.parts.append(new_data_part({"order": 3, "open": True}))
        await send(client, told)
    [request] = model.requests
    words, data = request.body["messages"][-1]["content"].split("\n", 1)
    assert (words, json.loads(data)) == ("Look.", {"order": 3, "open": True})


async def test_a_message_that_comes_again_decides_nothing_more(
    scripted: Scripted, serve_agents: Serve
) -> None:
    payments = [asks(call("pay", "c1", euros=3)), asks(call("pay", "c2", euros=999))]
    model = scripted([*payments, asks(call("pay", "c3", euros=1), delay=3.0), says("Paid.")])
    async with (
        serve_agents(scripted_agent(model, [PAY]), tools={"pay": pay}) as served,
        client_of(served) as client,
    ):
        seen = await send(client, said("Pay it."))
        asked = seen[-1].status_update.status
        assert asked.state == TaskState.TASK_STATE_INPUT_REQUIRED
        assert 'May pay be called with {"euros": 3}?' in get_message_text(asked.message)
        task: Task = seen[0].task
        there = {"task_id": task.id, "context_id": task.context_id}
        with pytest.raises(A2AError, match="expected `approve`"):
            await send(client, said("Hm.", **there))
        first, second = said("approve", **there), said("approve", **there)
        for message in (first, first):
            status = (await send(client, message))[-1].status_update.status
            assert status.state == TaskState.TASK_STATE_INPUT_REQUIRED
            assert '{"euros": 999}' in get_message_text(status.message)
        at_once = SendMessageConfiguration(return_immediately=True)
        async with client_of(served, streaming=False) as other:
            for message in (
                second,
                first,
                second,
            ):  # Nothing waits any more: it is no steering either.
                [
                    _
                    async for _ in other.send_message(
                        SendMessageRequest(message=message, configuration=at_once)
                    )
                ]
        last = [each async for each in client.subscribe(SubscribeToTaskRequest(id=task.id))][
            -1
        ].status_update.status
        assert last.state == TaskState.TASK_STATE_INPUT_REQUIRED
        assert (await send(client, said("approve", **there)))[
            -1
        ].status_update.status.state == TaskState.TASK_STATE_COMPLETED
    assert [
        each["content"] for each in model.requests[-1].body["messages"] if each["role"] == "user"
    ] == ["Pay it."]


async def test_a_client_comes_back_and_cancels(scripted: Scripted, serve_agents: Serve) -> None:
    agent = scripted_agent(scripted([asks(call("pay", euros=3)), says("It is paid.")]), [PAY])
    async with serve_agents(agent, tools={"pay": pay}) as served:
        async with client_of(served) as client:
            task = (await send(client, said("Pay it.")))[0].task
        async with client_of(served) as client:
            async with asyncio.timeout(30):
                async for each in client.subscribe(SubscribeToTaskRequest(id=task.id)):
                    last = each
            assert last.status_update.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
            ended = await client.cancel_task(CancelTaskRequest(id=task.id))
            assert ended.status.state == TaskState.TASK_STATE_CANCELED
