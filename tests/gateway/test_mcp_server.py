"""Agents as MCP tools, called by the protocol's own client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError, types
from mcp.client.streamable_http import streamable_http_client

from perdure.gateway.identity import TokenFile
from perdure.gateway.mcp_server import TASKS
from perdure.json_types import JsonObject
from perdure.testing import asks, call, says

from ..support.agents import Scripted, scripted_agent
from ..support.mcp_tasks import Created, Tasks, ask
from .conftest import Serve, Served
from .test_own import PAY, pay

FIELDS = {
    "instructions": "user:\n{{question}}",
    "inputs": [{"name": "question", "kind": "string", "required": True}],
}
ASKED = {"question": "What is it?"}


def text_of(result: Any) -> str:
    [content] = result.content
    text: str = content.text
    return text


@asynccontextmanager
async def client_of(served: Served, **more: Any) -> AsyncIterator[Client]:
    async with Client(f"{served.url}/mcp/", **more) as client:
        yield client


async def test_an_agent_is_a_tool(scripted: Scripted, serve_agents: Serve) -> None:
    model = scripted(
        [says("It is a lamp.", delay=1.5)]
    )  # who answers at once may be told of nothing before the answer
    heard: list[str | None] = []

    async def note(done: float, total: float | None, text: str | None) -> None:
        heard.append(text)

    async with serve_agents(scripted_agent(model, **FIELDS)) as served, client_of(served) as client:
        tools = (await client.list_tools()).tools
        assert [each.name for each in tools] == ["tested", "result"]
        assert tools[0].input_schema["required"] == ["question"]
        answer = await client.call_tool("tested", ASKED, progress_callback=note)
        assert (text_of(answer), answer.is_error) == ("It is a lamp.", False)
        assert "the model works" in heard
        missing = await client.call_tool("tested", {})
        assert missing.is_error
        assert "question" in text_of(missing)
        with pytest.raises(
            MCPError, match="There is no tool 'nothing': expected one of tested, result"
        ) as unknown:
            await client.call_tool("nothing", {})
        assert unknown.value.code == types.INVALID_PARAMS
        assert (await client.call_tool("result", {"run": "none"})).is_error
    assert len(model.requests) == 1


async def test_a_long_call_is_fetched_later_and_started_once(
    scripted: Scripted, serve_agents: Serve
) -> None:
    model = scripted([says("At last.", delay=2.0)])
    impatient = serve_agents(scripted_agent(model, **FIELDS), patience_seconds=0.3)
    async with impatient as served, client_of(served) as client:
        told = json.loads(text_of(await client.call_tool("tested", ASKED)))
        again = json.loads(text_of(await client.call_tool("tested", ASKED)))
        assert again == told
        assert told["status"] == "working"
    async with serve_agents(scripted_agent(model, **FIELDS)) as served, client_of(served) as client:
        async with asyncio.timeout(30):
            while (
                answer := text_of(await client.call_tool("result", {"run": told["run"]}))
            ).startswith("{"):
                pass
    assert answer == "At last."
    assert len(model.requests) == 1


async def test_a_task_outlives_gateways_and_is_decided(
    scripted: Scripted, serve_agents: Serve
) -> None:
    agent = scripted_agent(
        scripted([asks(call("pay", euros=3)), says("It is paid.")]), [PAY], **FIELDS
    )
    async with (
        serve_agents(agent, tools={"pay": pay}) as served,
        client_of(served, extensions=[Tasks()]) as client,
    ):
        created = await client.session.call_tool("tested", ASKED, allow_claimed=True)
        assert isinstance(created, Created)
        assert created.status == "working"
    async with (
        serve_agents(agent, tools={"pay": pay}) as served,
        client_of(served, extensions=[Tasks()]) as client,
    ):
        asked = await _until(client, created.task_id, "input_required")
        [(key, request)] = asked["inputRequests"].items()
        assert "pay" in request["params"]["message"]
        answers = [{"action": "cancel"}, {"action": "accept", "content": {"approved": True}}]
        await ask(client, "tasks/update", taskId=created.task_id, inputResponses={key: answers[0]})
        assert (await ask(client, "tasks/get", taskId=created.task_id))[
            "status"
        ] == "input_required"
        await ask(client, "tasks/update", taskId=created.task_id, inputResponses={key: answers[1]})
        done = await _until(client, created.task_id, "completed")
        assert done["result"]["content"][0]["text"] == "It is paid."
        assert done["result"]["resultType"] == "complete"
        await ask(client, "tasks/cancel", taskId=created.task_id)
        with pytest.raises(MCPError, match="There is no run"):
            await ask(client, "tasks/get", taskId="none")


ABOUT_TASKS = ("tasks/get", "tasks/update", "tasks/cancel")
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS: {}}},
}
MODERN = {
    "MCP-Protocol-Version": "2026-07-28",
    "Accept": "application/json, text/event-stream",
}
HEADERS = {"another": -32020, "": -32020, "none": -32602, "=?base64?bm9uZQ==?=": -32602}
"""The task that the header names, and the code of the refusal."""


async def test_tasks_are_for_clients_that_have_declared_them(
    scripted: Scripted, serve_agents: Serve
) -> None:
    """And the header names the task of the body."""
    agent = scripted_agent(scripted([]), **FIELDS)
    async with serve_agents(agent) as served, httpx2.AsyncClient(timeout=60) as http:
        for more, code, text in (
            ({}, types.MISSING_REQUIRED_CLIENT_CAPABILITY, "."),
            ({"mode": "legacy"}, types.METHOD_NOT_FOUND, "."),
            ({"extensions": [Tasks()]}, types.INVALID_PARAMS, "There is no run 'none'"),
        ):
            async with client_of(served, **more) as client:
                for method in ABOUT_TASKS:
                    with pytest.raises(MCPError, match=text) as refused:
                        await ask(client, method, taskId="none")
                    assert refused.value.code == code, more
        for method in ABOUT_TASKS:
            for name, code in HEADERS.items():
                headers = {**MODERN, "Mcp-Method": method, **({"Mcp-Name": name} if name else {})}
                about = {"jsonrpc": "2.0", "id": 1, "method": method}
                body = {**about, "params": {"taskId": "none", "_meta": META}}
                answer = await http.post(f"{served.url}/mcp/", json=body, headers=headers)
                assert answer.json()["error"]["code"] == code, answer.text


async def _until(client: Client, task: str, status: str) -> JsonObject:
    async with asyncio.timeout(30):
        while (now := await ask(client, "tasks/get", taskId=task))["status"] != status:
            await asyncio.sleep(0.1)
    return now


async def test_who_is_not_known_is_not_let_in(
    scripted: Scripted, serve_agents: Serve, tokens: TokenFile
) -> None:
    async with (
        serve_agents(scripted_agent(scripted([]), **FIELDS), known=[tokens]) as served,
        httpx2.AsyncClient(base_url=served.url) as http,
    ):
        assert (await http.post("/mcp/", json={})).status_code == 401
        headers = {"Authorization": "Bearer token-of-bob-at-bolt"}
        async with httpx2.AsyncClient(headers=headers) as own:
            transport = streamable_http_client(f"{served.url}/mcp/", http_client=own)
            async with Client(transport) as client:
                assert [each.name for each in (await client.list_tools()).tools] == [
                    "tested",
                    "result",
                ]
