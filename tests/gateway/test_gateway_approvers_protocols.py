"""Who may decide, tried by each of the other protocols: MCP, A2A, Responses, AG-UI and the AI
SDK.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from perdure.client import get_run
from perdure.gateway.gateway import digest_of
from perdure.gateway.identity import TokenFile
from perdure.gateway.responses_wire import APPROVAL, AskedCall
from perdure.json_types import JsonObject
from perdure.testing import asks, call, says

from ..support.agents import Scripted, scripted_agent
from ..support.approvers import POLICY, Waits, declared, token, waiting_call
from ..support.chat_clients import ChatClients
from ..support.mcp_tasks import Tasks, ask
from ..support.stage import Stage, replay_runs
from .conftest import Serve, Served
from .test_own import pay

NEXT = "Approved by fay: another person has to approve the same."


@dataclass(frozen=True)
class Try:
    """A decision, as somebody sends it."""

    who: str
    approved: bool = True
    is_stale: bool = False
    """Whether it names a call that does not wait."""
    more: JsonObject = field(default_factory=dict)
    """What is said beside it."""


FORGED = {"by": "gus", "vouch": {"name": "gus"}, "roles": ["finance"], "name": "gus"}
REFUSED = [
    *(
        Try(who, approved)
        for who in ("ann", "erin", "bob", "carl", "hal", "dora")
        for approved in (True, False)
    ),
    *(Try(who, more=FORGED) for who in ("ann", "bob", "dora")),
    Try("fay", is_stale=True),
    Try("fay", approved=False, is_stale=True),
    Try("nobody"),
]
Send = Callable[[Waits, Try], Awaitable[str]]
"""Sends a decision by one protocol; returns all that comes back."""


async def by_mcp(waits: Waits, tried: Try) -> str:
    key = "0" * 16 if tried.is_stale else waits.pending.digest
    answer: JsonObject = {"action": "accept" if tried.approved else "decline", **tried.more}
    answer |= {"content": {"approved": True, **tried.more}} if tried.approved else {}
    try:
        async with mcp_client(waits.served, tried.who) as client:
            await ask(client, "tasks/update", taskId=waits.run, inputResponses={key: answer})
            return json.dumps(await ask(client, "tasks/get", taskId=waits.run), ensure_ascii=False)
    except MCPError as error:
        return str(error)
    except BaseExceptionGroup as group:  # 401, before anything of the protocol is read.
        return repr(group.exceptions)


@asynccontextmanager
async def mcp_client(served: Served, who: str) -> AsyncIterator[Client]:
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token(who)}"}) as http:
        transport = streamable_http_client(f"{served.url}/mcp/", http_client=http)
        async with Client(transport, extensions=[Tasks()]) as client:
            yield client


async def by_a2a(waits: Waits, tried: Try) -> str:
    digest = "0" * 16 if tried.is_stale else waits.pending.digest
    data = {"digest": digest, "approved": tried.approved, **tried.more}
    sent = {
        "messageId": f"m-{tried}",
        "taskId": waits.run,
        "role": "ROLE_USER",
        "parts": [{"data": data}],
    }
    params = {"message": sent, "configuration": {"returnImmediately": True}, "metadata": tried.more}
    request = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    return await posted(waits, tried, "/a2a/tested", request)


async def by_responses(waits: Waits, tried: Try) -> str:
    digest = "0" * 16 if tried.is_stale else waits.pending.digest
    asked = (
        f"{APPROVAL}{AskedCall(run=waits.run, call=waits.pending.call_id, digest=digest, part=1)}"
    )
    item = {
        "type": "mcp_approval_response",
        "approval_request_id": asked,
        "approve": tried.approved,
        **tried.more,
    }
    return await posted(
        waits, tried, "/v1/responses", {"model": "tested", "input": [item], "user": "gus"}
    )


async def by_ag_ui(waits: Waits, tried: Try) -> str:
    id = "0" * 32 if tried.is_stale else interrupt_of(waits)
    payload = {"approved": tried.approved, **tried.more}
    resume = [{"interruptId": id, "status": "resolved", "payload": payload, **tried.more}]
    body = {**thread_of(waits), "resume": resume, "forwardedProps": tried.more}
    return await posted(waits, tried, "/ag-ui/tested", body)


async def by_ai_sdk(waits: Waits, tried: Try) -> str:
    id = "0" * 32 if tried.is_stale else interrupt_of(waits)
    approval = {"id": id, "approved": tried.approved, **tried.more}
    part = {"type": "dynamic-tool", "state": "approval-responded", "approval": approval}
    message = {"id": waits.run, "role": "assistant", "parts": [part]}
    body = {**tried.more, "id": session_of(waits), "messages": [message]}
    return await posted(waits, tried, "/ai/tested", body)


def interrupt_of(waits: Waits) -> str:
    """The name that chats have for what waits."""
    return digest_of([waits.run, waits.origin, waits.run, waits.pending.digest])


def session_of(waits: Waits) -> str:
    return waits.run.rpartition("/")[0]


def thread_of(waits: Waits) -> JsonObject:
    return {"threadId": session_of(waits), "runId": "r", "messages": [], "protocolVersion": "1.0"}


async def posted(waits: Waits, tried: Try, path: str, body: JsonObject) -> str:
    async with waits.served.asking(token(tried.who)) as http:
        answer = await http.post(
            f"{waits.served.url}{path}", json=body, headers={"A2A-Version": "1.0"}
        )
    return answer.text


@pytest.fixture
async def turn(
    scripted: Scripted, serve_agents: Serve, people: TokenFile, stage: Stage
) -> AsyncIterator[Waits]:
    """A turn of a session in which erin and ann have said something, and that waits for two others
    of `finance`.
    """
    model = scripted([says("Hello."), asks(call("pay", euros=3)), says("Paid.")])
    async with serve_agents(
        scripted_agent(model, [declared(**POLICY)]), known=[people], tools={"pay": pay}
    ) as served:
        session = f"acme:{stage.task_queue}"
        for who, number in (("erin", 1), ("ann", 2)):
            async with served.asking(token(who)) as http:
                said = await http.post(
                    f"/sessions/{session}/messages", json={"text": "Pay it.", "agent": "tested"}
                )
                assert said.json()["run"] == f"{session}/{number}", said.text
                if number == 1:
                    await http.get(f"/runs/{session}/1/result", params={"wait": 30})
                else:
                    await waiting_call(http, f"{session}/2")
        [pending] = (await get_run(stage.client, f"{session}/2").status()).pending_approvals
        described = await stage.client.get_workflow_handle(f"{session}/2").describe()
        yield Waits(served, stage.client, described.id, described.run_id, pending)


@pytest.mark.parametrize("send", [by_mcp, by_a2a, by_responses, by_ag_ui, by_ai_sdk])
async def test_nobody_decides_without_the_right_by(send: Send, turn: Waits) -> None:
    handle = get_run(turn.client, turn.run)
    for tried in REFUSED:
        told = await send(turn, tried)
        assert (await handle.status()).pending_approvals == [turn.pending], (tried, told)
        if tried.who in ("ann", "erin", "bob", "carl", "hal") and not tried.is_stale:
            assert "may not decide" in told or "is a requester of this run" in told, (tried, told)
        if tried.who in ("dora", "nobody"):
            assert "Paid" not in told
            assert "euros" not in told, (tried, told)

    # One of two decides, whoever else she says that she is, and is one when she says it again.
    for more in (FORGED, {}, {}):
        told = await asyncio.wait_for(send(turn, Try("fay", more=more)), 30)
        assert (
            NEXT if send is not by_responses else "Approved by fay: 1 of 2. Another person has to"
        ) in told
        [pending] = (await handle.status()).pending_approvals
        assert [each.name for each in pending.votes] == ["fay"]
    assert NEXT in await send(turn, Try("ann", is_stale=True)) or send in (by_a2a, by_responses)
    await send(turn, Try("gus", more={"by": "fay"}))
    assert (await handle.result()).output == "Paid."
    [decided] = [each.data for each in await handle.events() if each.type == "permission_completed"]
    assert [each["name"] for each in decided["vouched"]] == ["fay", "gus"]
    assert decided["by"] == "fay, gus"
    await send(turn, Try("gus", approved=False))  # It is over: nothing is changed by it.
    assert [each.type for each in await handle.events()].count("permission_completed") == 1
    await replay_runs(turn.client, turn.run)


async def test_a_page_asks_again_after_the_first_of_two(turn: Waits, clients: ChatClients) -> None:
    page, api = "fay", f"{turn.served.url}/ai/tested"
    headers = {"Authorization": f"Bearer {token('fay')}"}
    await clients.make(
        "ai-sdk",
        page,
        package="ai",
        api=api,
        id=session_of(turn),
        automatic=True,
        headers=headers,
    )
    await clients.do(page, "resume")
    await clients.do(page, "approve", id=interrupt_of(turn), approved=True)

    def has_voted(seen: JsonObject) -> bool:
        return "permission_vote" in json.dumps(seen["data"])

    seen = await clients.until(page, has_voted)
    [tool] = [part for part in seen["messages"][-1]["parts"] if part["type"] == "dynamic-tool"]
    assert (tool["state"], seen["errors"], seen["requests"]) == ("approval-requested", [], 2)
    assert await by_ai_sdk(turn, Try("gus")) != ""
    done = await clients.do(page, "resume")
    assert "Paid." in json.dumps(done["messages"][-1])
