"""Runs whose tools are those of MCP servers: real processes and real HTTP servers of the official
package.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp.server import Server
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from temporalio.testing import WorkflowEnvironment

from perdure import RunCancelled, load
from perdure.client import RunHandle
from perdure.protocol.outcome import RunResult
from perdure.testing import ScriptedModel, asks, call, says
from perdure.testing.script import Script
from perdure.tool_calls import PendingApproval

from ..support.agents import scripted_agent
from ..support.hosts import serving
from ..support.mcp_scripted import HELLO
from ..support.mcp_scripted import Scripted as ScriptedServer
from ..support.mcp_server import make_server
from ..support.mcp_stage import is_alive, on_http, on_stdio
from ..support.stage import Stage
from ..support.unknown_outcomes import NEEDS_APPROVAL
from ..support.waiting import wait_for
from ..support.worker_process import WorkerJob
from ..support.workers import Nursery

Scripted = Callable[[Script], ScriptedModel]
KEY = "a-very-secret-key-of-the-office"


class Killed:
    """A run whose worker was killed while two servers were at work for it; another worker goes
    on.
    """

    def __init__(self, server: WorkflowEnvironment, folder: Path) -> None:
        self._server = server
        self.folder = folder
        self.once, self.often = folder / "once", folder / "often"
        for each in (self.once, self.often):
            each.mkdir()

    async def play(self) -> RunResult[Any]:
        """The run's result."""
        stage = Stage(self._server.client, f"test-{uuid.uuid4()}")
        address = self._server.client.service_client.config.target_host
        job = WorkerJob(address=address, task_queue=stage.task_queue, folder=str(self.folder))
        steady = on_stdio(
            perdure={"idempotent": True}, allowedTools=["wait"], env={"OTHER": "server"}
        )
        calls = [call("wait", text=str(self.once)), call("steady_wait", text=str(self.often))]
        with ScriptedModel([asks(*calls), says("done")]) as model:
            async with Nursery() as nursery:
                worker = await nursery.start(job)
                agent = scripted_agent(model, [on_stdio(), {**steady, "name": "steady"}])
                run = await stage.start(agent, parallel_tool_calls=True)
                await wait_for(_that(lambda: pids(self.once) != [] and pids(self.often) != []))
                worker.kill()
                await nursery.start(job)
                await wait_for(
                    _that(lambda: not any(map(is_alive, pids(self.once) + pids(self.often)[:1])))
                )
                for each in (self.once, self.often):
                    (each / "go").touch()
                result = await asyncio.wait_for(run.result(), 60)
        await stage.replay()
        return result


@pytest.fixture(scope="module", autouse=True)
async def killed(
    server: WorkflowEnvironment, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Killed, asyncio.Task[RunResult[Any]]]]:
    """Under way from the first test of this module on: it mostly waits."""
    killed = Killed(server, tmp_path_factory.mktemp("mcp"))
    playing = asyncio.create_task(killed.play())
    yield killed, playing
    playing.cancel()
    await asyncio.wait([playing])


async def test_two_runs_share_the_connections_of_their_worker(
    stage: Stage, scripted: Scripted
) -> None:
    """A function whose name another server has already is named after its own server, too."""
    replies = [
        asks(call("process"), call("web_echo", text="höre"), call("structured")),
        says("done"),
    ]
    server = Counting(make_server())
    with serving(server) as url:
        tools = [on_stdio(), {**on_http(f"{url}/mcp"), "name": "web"}]
        models = [scripted(replies) for _ in range(2)]
        async with stage.worker():
            runs = [await stage.start(scripted_agent(model, tools)) for model in models]
            texts = [tool_texts(await run.result()) for run in runs]
            pid = int(texts[0][0])
            assert is_alive(pid)
        assert not is_alive(pid)
    assert texts == [[str(pid), "höre", '{"degrees":21}']] * 2
    offered = [tool["function"]["name"] for tool in models[0].requests[0].body["tools"]]
    assert {"echo", "write_it", "fail"} <= set(offered)
    of_one = offered[: offered.index("web_ask")]
    assert of_one == sorted(of_one), "in whatever order the server lists them"
    assert server.connections == 1
    history = await stage.client.get_workflow_handle(runs[0].id).fetch_history()
    types = [
        event.activity_task_scheduled_event_attributes.activity_type.name
        for event in history.events
    ]
    assert types.count("perdure.inventory") == 1
    assert types.count("perdure.tool.web_echo") == 1


async def test_the_agent_of_the_page(
    stage: Stage, scripted: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "tools-mcp.md").read_text(encoding="utf-8")
    server, prompty = (
        re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)[0]
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
        assert tool_texts(await run.result()) == ["12 euros"]


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
            echoed, environment = tool_texts(await run.result())
    assert set(seen) == {f"Bearer {KEY}"}
    assert echoed == "x"
    assert "SPECIAL=${env:OFFICE_KEY}" in environment
    recorded = await stage.client.get_workflow_handle(run.id).fetch_history()
    assert KEY not in str(recorded.events)


async def test_a_cancelled_run_and_a_slow_tool_are_told_to_the_server(
    stage: Stage, scripted: Scripted, tmp_path: Path
) -> None:
    slow, cancelled = tmp_path / "slow", tmp_path / "cancelled"
    for folder in (slow, cancelled):
        folder.mkdir()
    with serving(make_server().streamable_http_app()) as url:
        web, model = (
            on_http(f"{url}/mcp"),
            scripted([asks(call("wait", text=str(slow))), says("done")]),
        )
        async with stage.worker():
            limited = await stage.start(scripted_agent(model, [{**web, "perdure": {"timeout": 2}}]))
            model = scripted([asks(call("wait", text=str(cancelled))), says("never")])
            run = await stage.start(scripted_agent(model, [web]), cancel_grace=0)
            await wait_for(lambda: _progress(stage, run))
            await run.cancel()
            with pytest.raises(RunCancelled) as caught:
                await asyncio.wait_for(run.result(), 10)
            await wait_for(_that((cancelled / "cancelled").exists))
            result = await limited.result()
            await wait_for(_that((slow / "cancelled").exists))
    [message] = [each for each in caught.value.messages if each.role == "tool"]
    assert message.metadata["status"] == "cancelled"
    assert tool_texts(result) == [
        f"Error: Tool 'wait' failed: timed out after 2 seconds{NEEDS_APPROVAL}"
    ]


async def test_progress_in_the_first_second_over_stdio_is_heard(
    stage: Stage, scripted: Scripted, tmp_path: Path
) -> None:
    """The task that reads the server's messages belongs to no activity."""
    async with stage.worker(tool_loop=None):
        run = await stage.start(
            scripted_agent(
                scripted([asks(call("wait", text=str(tmp_path))), says("over")]), [on_stdio()]
            )
        )
        await wait_for(lambda: _progress(stage, run))
        (tmp_path / "go").touch()
        assert tool_texts(await run.result()) == ["went after True"]


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
    [text] = tool_texts(result)
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

    def answer(request: Request, message: dict[str, Any]) -> Response:
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
    told, refused = tool_texts(results[0])
    assert (told, "Unknown tool: hello" in refused) == ("hi", True)


async def _asks(run: RunHandle, words: str) -> bool:
    return any(words in str(pending.question) for pending in await _pending(run))


async def test_a_killed_worker_takes_its_servers_with_it(
    killed: tuple[Killed, asyncio.Task[RunResult[Any]]],
) -> None:
    """What it had called is repeated on another worker only where that does no harm."""
    scene, playing = killed
    lost, repeated = tool_texts(await asyncio.wait_for(playing, 60))
    assert lost.startswith("Error: Tool 'wait'")
    assert "lost" in lost
    assert repeated.startswith("went after")
    assert (len(pids(scene.once)), len(pids(scene.often))) == (1, 2)


def tool_texts(result: RunResult[Any]) -> list[str]:
    return [message.text for message in result.messages if message.role == "tool"]


def pids(folder: Path) -> list[int]:
    """The processes that have begun to wait in this folder."""
    began = folder / "began"
    return [int(line) for line in began.read_text().splitlines()] if began.exists() else []


class Counting:
    """Counts the connections that are made to a server, as it is asked for its version."""

    def __init__(self, server: Server[Any]) -> None:
        self._app: ASGIApp = server.streamable_http_app()
        self.connections = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self.connections += Request(scope).headers.get("mcp-method") == "server/discover"
        await self._app(scope, receive, send)


async def _progress(stage: Stage, run: RunHandle) -> bool:
    """Whether the server's progress is seen in Temporal."""
    description = await stage.client.get_workflow_handle(run.id).describe()
    details = [
        each.heartbeat_details.payloads for each in description.raw_description.pending_activities
    ]
    return any(b"step " in payload.data for payloads in details for payload in payloads)


async def _pending(run: RunHandle) -> list[PendingApproval]:
    return (await run.status()).pending_approvals


def _that(holds: Callable[[], bool]) -> Any:
    async def probe() -> bool:
        return holds()

    return probe
