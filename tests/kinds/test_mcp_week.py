"""A run of a week: each hour all tokens end, and each MCP server starts anew, in a way of its
own.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from perdure.json_types import JsonObject
from perdure.testing import ScriptedReply, ScriptedRequest, asks, call, says

from ..support.agents import Scripted, scripted_agent, tool_texts
from ..support.hosts import serving
from ..support.mcp_scripted import text
from ..support.mcp_server import TEXT, make_server
from ..support.mcp_stage import on_http
from ..support.oauth_server import CLIENT, SECRET, Authority
from ..support.stage import Stage
from ..tools.mcp.test_kind_found import FORGOTTEN, Forgetful

NAMES = ("write_it", "write", "greet", "note")
"""A tool of each server."""
NOTING = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    method, params = asked["method"], asked.get("params", {})
    answer = {"error": {"code": -32601, "message": "unknown"}}
    if method == "initialize":
        info = {"name": "process", "version": "1"}
        answer = {"result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}}
    elif method == "tools/list":
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        answer = {"result": {"tools": [{"name": "note", "inputSchema": schema}]}}
    elif method == "tools/call":
        with open(os.environ["NOTES"], "a") as notes:
            notes.write(params["arguments"]["text"] + "\\n")
        answer = {"result": {"content": [{"type": "text", "text": "written"}]}}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""
"""A server over stdio that starts at once: its process names itself by its argument, for `kill`."""


class Week:
    """Four servers, and what happens to them at the beginning of each hour."""

    def __init__(self, folder: Path, hours: int) -> None:
        self.notes = folder / "notes.txt"
        self.notes.touch()
        (program := folder / "noting.py").write_text(NOTING)
        self.program = str(program)
        self.hours, self.hour = hours, 0
        self.asked: Counter[str] = Counter()
        self.restarts: Counter[str] = Counter()
        self.forgetful = self._forgetful("404 with JSON", "write")
        self.worded = self._forgetful("400 in text", "greet")
        self.stopped, self.forgets = Authority(), Authority()
        self._stack, self._port = ExitStack(), 0

    def _forgetful(self, way: str, tool: str) -> Forgetful:
        server = Forgetful(FORGOTTEN[way])
        server.answer = self._note
        server.tools = [{"name": tool, "inputSchema": TEXT}]
        return server

    def _note(self, request: Request, message: JsonObject) -> Response:
        self.write(message["params"]["arguments"]["text"])
        return text(message, "written")

    def write(self, words: str) -> None:
        with self.notes.open("a") as notes:
            notes.write(f"{words}\n")

    @property
    def token(self) -> str:
        return f"the-token-of-the-hour-{self.hour}"

    def vault(self, id: str) -> str:
        """The credential function."""
        self.asked[id] += 1
        return self.token

    @property
    def guarded(self) -> ASGIApp:
        """The server that refuses in words, for those alone who have the token of the hour."""

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            if (
                scope["type"] == "http"
                and Request(scope).headers.get("authorization") != f"Bearer {self.token}"
            ):
                return await Response("no", 401)(scope, receive, send)
            await self.worded.app(scope, receive, send)

        return guarded

    def serve(self) -> None:
        """Start the server that is stopped each hour, where it was."""
        app = self.stopped.protect(make_server().streamable_http_app())
        self.stopped.server = self._stack.enter_context(serving(app, self._port))
        self._port = int(self.stopped.server.rpartition(":")[2])

    def reply(self, request: ScriptedRequest) -> ScriptedReply:
        """Begin the next hour, and call all four servers."""
        if request.step:
            self._begin_hour()
        if request.step == self.hours:
            return says("The week is over.")
        given = {name: f"{name}-{request.step}" for name in NAMES}
        calls = [call(name, f"c{request.step}{name}", text=each) for name, each in given.items()]
        return asks(*calls)

    def _begin_hour(self) -> None:
        self.hour += 1
        for each in (self.stopped, self.forgets):
            each.end_tokens()
        self._stack.close()
        self.serve()
        for server in (self.forgetful, self.worded):
            server.forgotten = server.sessions
        for pid in self._processes():
            os.kill(pid, signal.SIGKILL)
            self.restarts["killed"] += 1
        time.sleep(
            0.3
        )  # Their ends are heard of meanwhile: a call that is under way then is another story.
        self.restarts.update(["stopped", "forgets", "refuses in words"])

    def _processes(self) -> list[int]:
        found = []
        for place in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = place.read_bytes()
            except OSError:
                continue
            if self.program.encode() in words:
                found.append(int(place.parent.name))
        return found

    def close(self) -> None:
        self._stack.close()


@pytest.mark.parametrize(
    "hours",
    [3, pytest.param(168, marks=[pytest.mark.trial, pytest.mark.timeout(1800)])],
    ids=["three hours", "a week"],
)
async def test_no_call_is_lost_and_none_repeated(
    stage: Stage, scripted: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    """Tokens end each hour, by OAuth and by a credential function; no tool is idempotent."""
    week = Week(tmp_path, hours)
    monkeypatch.setenv("NOTES", str(week.notes))
    monkeypatch.setenv("PERDURE_HOME", str(tmp_path))
    monkeypatch.setenv("ROBOT_SECRET", SECRET)
    began = time.monotonic()
    with (
        serving(week.stopped.app) as week.stopped.url,
        serving(week.forgets.app) as week.forgets.url,
        serving(week.forgets.protect(week.forgetful.app)) as week.forgets.server,
        serving(week.guarded) as worded,
    ):
        week.serve()
        oauth = {"kind": "oauth", "clientId": CLIENT, "clientSecret": "${env:ROBOT_SECRET}"}
        options = {
            "command": sys.executable,
            "args": ["-S", week.program],
            "env": {"NOTES": str(week.notes)},
        }
        tools = [
            {
                **on_http(week.stopped.mcp, connection={**oauth, "issuer": week.stopped.url}),
                "name": "stopped",
                "allowedTools": ["write.it"],
            },
            {
                **on_http(week.forgets.mcp, connection={**oauth, "issuer": week.forgets.url}),
                "name": "forgets",
            },
            {
                **on_http(f"{worded}/mcp", connection={"apiKey": "${credential:worded}"}),
                "name": "worded",
            },
            {"name": "killed", "kind": "mcp", "options": options},
        ]
        async with stage.worker(credentials=week.vault):
            agent = scripted_agent(scripted(week.reply), tools)
            run = await stage.start(
                agent, max_iterations=hours + 1, parallel_tool_calls=True, lost_worker_seconds=60
            )
            result = await run.result()
    week.close()
    texts = tool_texts(result.messages)
    failed = [each for each in texts if each != "written"]
    done = Counter(week.notes.read_text().split())
    expected = [
        f"{name}-{hour}"
        for name, hour in itertools.product(("write_it", "write", "greet", "note"), range(hours))
    ]
    tokens = len(week.stopped.grants) + len(week.forgets.grants) + week.asked["worded"]
    seconds = time.monotonic() - began
    print(
        f"{hours} h: {len(texts)} calls, {tokens} tokens, {week.restarts.total()} restarts, "
        f"{seconds:.0f} s"
    )
    assert failed == []
    assert result.output == "The week is over."
    assert done == Counter(expected), "each once"
    assert len(week.stopped.grants) >= hours
    assert len(week.forgets.grants) >= hours
    assert week.restarts["killed"] >= hours - 1
