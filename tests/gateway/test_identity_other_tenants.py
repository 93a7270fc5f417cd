"""What another tenant's token, or none, reaches by any protocol: nothing."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import httpx2

from perdure.gateway.gateway import digest_of
from perdure.gateway.identity import TokenFile
from perdure.gateway.responses_wire import APPROVAL, AskedCall
from perdure.json_types import JsonObject
from perdure.protocol.later import CompletionToken
from perdure.testing import ScriptedReply, asks, call, says
from perdure.testing.script import ScriptedRequest

from ..support.agents import Scripted, scripted_agent
from ..support.approvers import waiting_call
from .conftest import Serve
from .test_own import PAY, pay

ANN = {"Authorization": "Bearer token-of-ann-at-acme"}
OURS = ("For acme.", "euros", "Pay acme")
"""What only acme's runs have in them."""
READS = ("", "/result", "/events", "/messages", "/trace")
TALKS = ("", "/messages", "/events")
ENDS = ("close", "cancel")
FACES = ("ai", "ag-ui")


def for_its_tenant(request: ScriptedRequest) -> ScriptedReply:
    said = request.messages[-1].text
    return (
        asks(call("pay", euros=3))
        if "Pay acme" in said
        else says("For acme." if "acme" in said else "For bolt.")
    )


def rpc(method: str, **params: Any) -> JsonObject:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def modern(method: str, **params: Any) -> JsonObject:
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
        hook = {"url": "https://bolt.example/hook", "id": "h"}
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
            *(rpc("CreateTaskPushNotificationConfig", taskId=run, **hook) for run in runs),
            *(rpc("ListTaskPushNotificationConfigs", taskId=run) for run in runs),
            *(rpc("DeleteTaskPushNotificationConfig", taskId=run, id="h") for run in runs),
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
        origin = (await served.gateway.client.get_workflow_handle(waiting).describe()).run_id
        asked_call = AskedCall(
            run=waiting, call=pending["call_id"], digest=pending["digest"], part=1
        )
        decision = {
            "type": "mcp_approval_response",
            "approval_request_id": f"{APPROVAL}{asked_call}",
            "approve": True,
        }
        answers = [f"/v1/responses/resp_0_{run}" for run in runs]
        new = {"model": "tested", "input": "x"}
        responses: list[tuple[str, str, Any]] = [
            *(("GET", f"{each}{more}", None) for each in answers for more in ("", "?stream=true")),
            *(("GET", f"{each}?stream=true&starting_after={2**40}", None) for each in answers),
            *(("POST", f"{each}/cancel", {}) for each in answers),
            *(("DELETE", each, None) for each in answers),
            *(
                ("POST", "/v1/responses", {**new, "previous_response_id": each[14:]})
                for each in answers
            ),
            ("POST", "/v1/responses", {**new, "input": [decision]}),
        ]
        named = digest_of([waiting, origin, waiting, pending["digest"]])
        part = {"type": "dynamic-tool", "approval": {"id": named, "approved": True}}
        last = {"id": waiting, "role": "assistant", "parts": [part]}
        resume = [{"interruptId": named, "status": "resolved", "payload": {"approved": True}}]
        forms = [quote(each, safe="") for each in (*talks, waiting, f"{waiting}?tenant=acme")]
        chats: list[tuple[str, str, Any]] = [
            *(("GET", f"/ai/tested/{form}/stream", None) for form in forms),
            *(("POST", f"/{face}/tested/{form}/stop", {}) for form in forms for face in FACES),
            *(("POST", "/ai/tested", {"id": talk, "messages": [last]}) for talk in talks),
            *(
                ("POST", "/ag-ui/tested", {"threadId": talk, "runId": "r", "messages": [], **more})
                for talk in (*talks, waiting)
                for more in ({}, {"resume": resume})
            ),
        ]
        call_named = {"callId": pending["call_id"], "digest": pending["digest"]}
        own: list[tuple[str, str, Any]] = [
            *(("GET", f"/perdure/runs/{run}{what}", None) for run in runs for what in READS),
            *(
                ("POST", f"/perdure/runs/{id}/{what}", body)
                for id in (*runs, f"{waiting}/../{waiting}", f"bolt:{waiting}")
                for what, body in (
                    ("steer", {"text": "x"}),
                    ("cancel", {}),
                    ("approve", call_named),
                    ("deny", call_named),
                    ("answer", {**call_named, "text": "x"}),
                )
            ),
            *(("GET", f"/perdure/sessions/{talk}{what}", None) for talk in talks for what in TALKS),
            *(("POST", f"/perdure/sessions/{talk}/{what}", {}) for talk in talks for what in ENDS),
            *(("POST", f"/perdure/sessions/{talk}/messages", {"text": "x"}) for talk in talks),
        ]
        asked = {"model": "tested", "messages": [{"role": "user", "content": "Hello bolt"}]}
        kaos = "/kaos/tested/v1/chat/completions"
        attempts: list[tuple[str, str, Any, dict[str, str]]] = [
            *(("POST", "/a2a/tested", body, {"A2A-Version": "1.0"}) for body in a2a),
            *(("POST", "/mcp/", body, mcp_headers(body)) for body in mcp),
            *((*each, {}) for each in (*responses, *chats, *own)),
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
                ("POST", f"/perdure/calls/{CompletionToken.of(run, 'guess')}", {"result": 1}, {})
                for run in runs[:2]
            ),
            *(
                ("GET", path, None, {})
                for path in ("/metrics", "/perdure/metrics", "/health/live", "/health/ready")
            ),
            # It begins a session of bob's own.
            *(("POST", "/v1/responses", {**new, "conversation": talk}, {}) for talk in talks),
        ]
        for method, path, body, headers in attempts:
            about = {"Authorization": "Bearer token-of-bob-at-bolt", **headers}
            answer = await http.request(
                method, path, headers=about, **({"json": body} if body is not None else {})
            )
            assert answer.status_code < 500, (path, body, answer.text)
            assert not any(each in answer.text for each in OURS), (path, body, answer.text)
            assert f'"acme:{chat}' not in answer.text, (path, body, answer.text)
            if path.startswith(("/v1/", "/perdure/", "/ai/", "/ag-ui/", "/kaos/")):
                answer = await http.request(method, path, json=body)
                assert answer.status_code in (401, 404), (path, answer.text)
        assert len(attempts) >= 150
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
        assert (await served.gateway.client.get_workflow_handle(waiting).query("status")).get(
            "push"
        ) in (None, [])
        heard = json.dumps((await ann.get(f"/sessions/{chat}/messages")).json())
        assert "bolt" not in heard
        assert (await ann.get("/runs", params={"session": f"acme:{chat}-f"})).json() == []
        async with served.asking("token-of-the-operator") as olga:
            assert (await olga.get(f"/runs/{waiting}")).json()["tenant"] == "acme"
        await ann.post(f"/runs/{waiting}/cancel")


def mcp_headers(body: JsonObject) -> dict[str, str]:
    headers = {
        "Accept": "application/json, text/event-stream",
        "Mcp-Protocol-Version": "2026-07-28",
    }
    named = body["params"].get("name") or body["params"].get("taskId")
    return {**headers, "Mcp-Method": body["method"], "Mcp-Name": named}
