"""Runs whose tools are those of MCP servers: real processes and real HTTP servers of the official
package.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from perdure import load
from perdure.client import RunHandle
from perdure.json_types import JsonObject
from perdure.testing import asks, call, says
from perdure.tool_calls import PendingApproval

from ..support.agents import Scripted, scripted_agent, tool_texts
from ..support.documents import manual
from ..support.hosts import serving
from ..support.mcp_scripted import HELLO
from ..support.mcp_scripted import Scripted as ScriptedServer
from ..support.mcp_server import make_server
from ..support.mcp_stage import on_http, on_stdio
from ..support.stage import Stage
from ..support.waiting import wait_for

KEY = "a-very-secret-key-of-the-office"


async def test_the_agent_of_the_page(
    stage: Stage, scripted: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = manual("guides/tools-mcp.md")
    server, prompty = (
        re.findall(rf"```{language}[^\n]*\n(.*?)```", page, re.DOTALL)[0]
        for language in ("python", "yaml")
    )
    (tmp_path / "shop.py").write_text(server)
    (tmp_path / "clerk.prompty").write_text(
        prompty.replace("command: python", f"command: {sys.executable}")
    )
    monkeypatch.chdir(tmp_path)
    model = scripted([asks(call("find_price", title="Dracula")), says("12 euros.")])
    agent = load("clerk.prompty").model_copy(update={"model": scripted_agent(model).model})
    async with stage.worker():
        run = await stage.start(agent)
        assert tool_texts((await run.result()).messages) == ["12 euros"]


async def test_no_secret_is_recorded(
    stage: Stage, scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OFFICE_KEY", KEY)
    seen: list[str | None] = []

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            seen.append(Request(scope).headers.get("authorization"))
        await app(scope, receive, send)

    app = make_server().streamable_http_app()
    with serving(guard) as url:
        connection = {"kind": "key", "endpoint": f"{url}/mcp", "apiKey": "${env:OFFICE_KEY}"}
        web = {"name": "web", "kind": "mcp", "connection": connection, "allowedTools": ["echo"]}
        process = on_stdio(env={"SPECIAL": "${env:OFFICE_KEY}"}, allowedTools=["environment"])
        model = scripted([asks(call("echo", text="x"), call("environment")), says("done")])
        async with stage.worker():
            run = await stage.start(scripted_agent(model, [web, process]))
            echoed, environment = tool_texts((await run.result()).messages)
    assert set(seen) == {f"Bearer {KEY}"}
    assert echoed == "x"
    assert "SPECIAL=${env:OFFICE_KEY}" in environment
    recorded = await stage.client.get_workflow_handle(run.id).fetch_history()
    assert KEY not in str(recorded.events)


async def test_what_a_server_asks_in_the_middle_of_a_call_is_a_question_of_the_run(
    stage: Stage, scripted: Scripted, tmp_path: Path
) -> None:
    """It waits over the end of its worker and of the server's process; the answers go out with the
    next request.
    """
    notes = tmp_path / "notes.txt"
    declared = on_stdio(env={"NOTES": str(notes)})

    async def question(run: RunHandle, words: str) -> PendingApproval:
        [pending] = await wait_for(lambda: _pending(run))
        assert (pending.kind, pending.name, pending.call_id) == ("question", "ask", "a")
        assert words in str(pending.question)
        return pending

    async with stage.worker():
        run = await stage.start(
            scripted_agent(scripted([asks(call("ask", "a")), says("done")]), [declared])
        )
        seat = await question(run, "MCP server 'tests' asks: Which seat?")
        assert (seat.choices, seat.allow_other) == (["aisle", "window"], False)
    async with stage.worker():
        await run.answer("a", "window", digest=seat.digest, by="ann")
        await wait_for(lambda: _asks(run, "Who flies?"))
        await run.answer("a", '{"nam": "Ada"}')
        await wait_for(lambda: _asks(run, "unknown argument 'nam'"))
    async with stage.worker():
        await run.answer("a", '{"name": "Ada", "age": 36}')
        await wait_for(lambda: _asks(run, "Pay 9 euros?"))
        await run.deny("a", "too much")
        result = await run.result()
    [text] = tool_texts(result.messages)
    seat_and_who = {"seat": {"seat": "window"}, "who": {"name": "Ada", "age": 36}}
    answers = {key: {"action": "accept", "content": value} for key, value in seat_and_who.items()}
    told, _, paid = text.rpartition(" {")
    assert json.loads(told) == answers
    assert "decline" in paid
    assert notes.read_text() == "booked\n"
    assert [event.type for event in await run.events()].count("tool_call_start") == 1
    await stage.replay()


async def test_a_run_sees_the_tools_that_were_listed_when_it_began(
    stage: Stage, scripted: Scripted
) -> None:
    """Whatever the server says meanwhile (`list_changed`); a run that begins later sees the new
    list.
    """
    later = {**HELLO[0], "name": "later"}

    def answer(request: Request, message: JsonObject) -> Response:
        if server.tools == [later]:
            error = {"code": -32602, "message": "Unknown tool: hello"}
            return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "error": error})
        server.tools = [later]
        changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        words = {"content": [{"type": "text", "text": "hi"}]}
        events = [changed, {"jsonrpc": "2.0", "id": message["id"], "result": words}]
        body = "".join([f"event: message\ndata: {json.dumps(each)}\n\n" for each in events])
        return Response(body, media_type="text/event-stream")

    server = ScriptedServer(answer)
    models = [
        scripted([asks(call("hello", "a")), asks(call("hello", "b")), says("done")]),
        scripted([says("done")]),
    ]
    with serving(server.app) as url:
        agents = [scripted_agent(model, [on_http(f"{url}/mcp")]) for model in models]
        async with stage.worker():
            results = [await (await stage.start(agent)).result() for agent in agents]
    requests = [request for model in models for request in model.requests]
    assert [[tool["function"]["name"] for tool in each.body["tools"]] for each in requests] == [
        *[["hello"]] * 3,
        ["later"],
    ]
    told, refused = tool_texts(results[0].messages)
    assert (told, "Unknown tool: hello" in refused) == ("hi", True)


async def _asks(run: RunHandle, words: str) -> bool:
    return any(words in str(pending.question) for pending in await _pending(run))


async def _pending(run: RunHandle) -> list[PendingApproval]:
    return (await run.status()).pending_approvals
