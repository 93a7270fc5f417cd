"""What another tenant's token reaches by the protocols that have no list of their own: nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx2

from perdure.gateway.identity import TokenFile
from perdure.protocol.later import Later
from perdure.testing import ScriptedModel, ScriptedReply, asks, call, says
from perdure.testing.script import Script, ScriptedRequest

from ..support.agents import scripted_agent
from ..support.approvers import waiting_call
from .conftest import Serve
from .test_own import PAY, pay

Scripted = Callable[[Script], ScriptedModel]
ANN = {"Authorization": "Bearer token-of-ann-at-acme"}
OURS = ("For acme.", "euros", "Pay acme")
"""What only acme's runs have in them."""


def for_its_tenant(request: ScriptedRequest) -> ScriptedReply:
    said = request.messages[-1].text
    return (
        asks(call("pay", euros=3))
        if "Pay acme" in said
        else says("For acme." if "acme" in said else "For bolt.")
    )


def rpc(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def modern(method: str, **params: Any) -> dict[str, Any]:
    """A request of MCP, by a client that knows tasks."""
    about = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "bob", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {
            "extensions": {"io.modelcontextprotocol/tasks": {}}
        },
    }
    return rpc(method, **params, _meta=about)


async def test_another_tenant_reaches_nothing(
    scripted: Scripted, serve_agents: Serve, tokens: TokenFile
) -> None:
    agent = scripted_agent(scripted(for_its_tenant), [PAY])
    async with (
        serve_agents(agent, known=[tokens], tools={"pay": pay}) as served,
        httpx2.AsyncClient(base_url=served.url, timeout=60) as http,
        served.asking("token-of-ann-at-acme") as ann,
    ):
        chat = served.gateway.task_queue
        said = {"text": "Hello acme", "agent": "tested"}
        first = (await ann.post(f"/sessions/{chat}/messages", json=said)).json()["run"]
        assert (await ann.get(f"/runs/{first}/result", params={"wait": 30})).json()[
            "output"
        ] == "For acme."
        waiting = (await ann.post(f"/sessions/{chat}/messages", json={"text": "Pay acme"})).json()[
            "run"
        ]
        pending = await waiting_call(ann, waiting)
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "approve"}]}
        inputs = {pending["digest"]: {"action": "accept", "content": {"approved": True}}}
        runs, talks = (
            (first, waiting, waiting.removeprefix("acme:")),
            (f"acme:{chat}", chat, f"bolt:acme:{chat}"),
        )
        a2a = [
            *(
                rpc(name, id=run)
                for run in runs
                for name in ("GetTask", "CancelTask", "SubscribeToTask")
            ),
            *(rpc("SendMessage", message={**message, "taskId": run}) for run in runs),
            *(rpc("ListTasks", contextId=talk) for talk in talks),
        ]
        mcp = [
            *(modern(name, taskId=run) for run in runs for name in ("tasks/get", "tasks/cancel")),
            *(modern("tasks/update", taskId=run, inputResponses=inputs) for run in runs),
            *(
                modern("tools/call", name="result", arguments={"run": run, "wait": 0})
                for run in runs
            ),
        ]
        asked = {"model": "tested", "messages": [{"role": "user", "content": "Hello bolt"}]}
        kaos = "/kaos/tested/v1/chat/completions"
        attempts: list[tuple[str, str, Any, dict[str, str]]] = [
            *(("POST", "/a2a/tested", body, {"A2A-Version": "1.0"}) for body in a2a),
            *(("POST", "/mcp/", body, mcp_headers(body)) for body in mcp),
            *(
                ("POST", "/v1/chat/completions", asked, {"X-Perdure-Session": talk})
                for talk in talks
            ),
            *(("POST", kaos, {**asked, "session_id": talk}, {}) for talk in talks),
            *(
                ("GET", f"/kaos/tested/memory/events?session_id={id}", None, {})
                for id in (*talks, *runs)
            ),
            ("GET", "/kaos/tested/memory/sessions", None, {}),
            *(("POST", f"/api/chat/{talk}/send", {"message": "Hello bolt"}, {}) for talk in talks),
            *(
                ("GET", f"/perdure/{what}?limit=1000", None, {})
                for what in ("runs", "sessions", "approvals")
            ),
            *(("GET", f"/perdure/runs?session={talk}", None, {}) for talk in talks),
            ("GET", "/perdure/runs?agent=x' OR PerdureTenant = 'acme", None, {}),
            *(
                ("GET", f"/perdure/runs/{run}/events?after={at}", None, {})
                for run in runs
                for at in (0, 3, "3.1~9")
            ),
            *(
                ("POST", f"/perdure/runs/{run}/fork", {"at": 1, "id": f"acme:{chat}-f"}, {})
                for run in runs
            ),
            *(
                ("POST", f"/perdure/calls/{Later.of(run, 'guess')}", {"result": 1}, {})
                for run in runs
            ),
            *(
                ("GET", path, None, {})
                for path in ("/metrics", "/perdure/metrics", "/health/live", "/health/ready")
            ),
        ]
        for method, path, body, headers in attempts:
            about = {"Authorization": "Bearer token-of-bob-at-bolt", **headers}
            answer = await http.request(
                method, path, headers=about, **({"json": body} if body is not None else {})
            )
            assert answer.status_code < 500, (path, body, answer.text)
            assert not any(each in answer.text for each in OURS), (path, body, answer.text)
            assert f'"acme:{chat}' not in answer.text, (path, body, answer.text)
        assert len(attempts) >= 60
        for body in (
            rpc("GetTask", id=first),
            modern("tasks/get", taskId=first),
        ):  # Who may, is answered.
            path, headers = (
                ("/mcp/", mcp_headers(body)) if "/" in body["method"] else ("/a2a/tested", {})
            )
            answer = await http.post(
                path, json=body, headers={**ANN, "A2A-Version": "1.0", **headers}
            )
            assert "For acme." in answer.text, (path, answer.text)
        assert (await ann.get(f"/runs/{waiting}")).json()["state"]["pending_approvals"] == [pending]
        heard = json.dumps((await ann.get(f"/sessions/{chat}/messages")).json())
        assert "bolt" not in heard
        assert (await ann.get("/runs", params={"session": f"acme:{chat}-f"})).json() == []
        await ann.post(f"/runs/{waiting}/cancel")


def mcp_headers(body: dict[str, Any]) -> dict[str, str]:
    headers = {
        "Accept": "application/json, text/event-stream",
        "Mcp-Protocol-Version": "2026-07-28",
    }
    named = body["params"].get("name") or body["params"].get("taskId")
    return {**headers, "Mcp-Method": body["method"], "Mcp-Name": named}
