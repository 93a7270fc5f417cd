"""Tools of a real server process of the official package."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from perdure.json_types import JsonObject
from perdure.messages import AudioPart, FilePart, ImagePart, TextPart, ToolResult
from perdure.tools.kind import ToolOfferError
from perdure.tools.mcp.kind import McpKind
from tests.support.mcp_stage import ROOT, Tools, is_alive, on_stdio
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tools]:
    """One server for those tests that leave it as it is."""
    notes = tmp_path_factory.mktemp("mcp") / "notes.txt"
    tools = await Tools(on_stdio(env={"NOTES": str(notes), "SPECIAL": "for the server"})).ask()
    yield tools
    await tools.kind.close()


async def test_all_pages_are_offered(shared: Tools) -> None:
    assert shared.names[:3] == ["echo", "write_it", "fail"]
    assert shared.names[-1] == "broken"
    echo, write = shared.offered[:2]
    assert (echo.description, echo.idempotent, echo.parameters["required"]) == (
        "Says it again.",
        True,
        ["text"],
    )
    assert (write.details["tool"], write.idempotent) == ("write.it", False)


async def test_answers_become_results(shared: Tools) -> None:
    assert (await shared.call("echo", text="höre")).text == "höre"
    assert (await shared.call("write_it", text="x")).text == "written"
    failed = await shared.call("fail")
    assert (failed.status, failed.error_kind) == ("error", "mcp_tool_error")
    assert failed.text == "Error: Tool 'fail' failed: no such customer"
    structured = await shared.call("structured")
    assert (structured.status, structured.text) == ("success", '{"degrees":21}')


async def test_media_and_resources_become_parts(shared: Tools) -> None:
    parts = (await shared.call("media")).parts
    assert [type(part) for part in parts] == [
        TextPart,
        ImagePart,
        AudioPart,
        TextPart,
        TextPart,
        FilePart,
        TextPart,
    ]
    texts = [part.value for part in parts if isinstance(part, TextPart)]
    assert texts == [
        "All of it:",
        "[Resource report, https://example.com/r.pdf (application/pdf, 1,200 bytes)]",
        "[file:///notes.txt]\nBuy milk.",
        "[image left out: it is not base64 of a known media type]",
    ]
    assert [part.media_type for part in parts if not isinstance(part, TextPart)] == [
        *("image/png", "audio/wav", "application/x-thing"),
    ]


async def test_errors_that_are_no_result_of_the_tool(shared: Tools) -> None:
    asked = await shared.call("ask")
    assert asked.needs
    assert (asked.needs.question.splitlines()[0], asked.needs.choices) == (
        "MCP server 'tests' asks: Which seat?",
        ["aisle", "window"],
    )
    broken = await shared.call("broken")
    assert broken.text == (
        "Error: Tool 'broken' failed: MCP server 'tests' answered with an error: Internal server "
        "error"
    )
    assert broken.status == "error"


async def test_a_server_has_its_own_environment_alone(
    shared: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [
        part.value
        for part in (await shared.call("environment")).parts
        if isinstance(part, TextPart)
    ]
    names = {line.partition("=")[0] for line in lines[:-1]}
    assert "SPECIAL=for the server" in lines
    inherited = {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"}
    assert names <= inherited | {"NOTES", "SPECIAL", "PYTHONPATH", "LC_CTYPE"}


def old(tmp_path: Path, code: str = "pass", **fields: Any) -> JsonObject:
    """The declaration of an old server that starts quickly; its tool `hello` does what the code
    says.
    """
    (tmp_path / "old.py").write_text(OLD.replace("...", code))
    return on_stdio(options={"args": [str(tmp_path / "old.py")]}, **fields)


def pids(tmp_path: Path) -> set[int]:
    """The processes that have begun a call."""
    return {int(line) for line in (tmp_path / "began").read_text().splitlines()}


async def test_a_server_that_dies_in_mid_call(tmp_path: Path) -> None:
    """Nobody knows what became of its calls."""
    tools = await Tools(old(tmp_path, "time.sleep(0.5); os._exit(3)")).ask()
    for result in await asyncio.gather(tools.call("hello"), tools.call("hello")):
        assert result.error_kind == "mcp_connection_lost"
        assert result.text == (
            "Error: Tool 'hello' failed: MCP server 'tests': the connection broke: Connection "
            "closed"
        )
    assert len(pids(tmp_path)) == 1
    assert (await tools.call("hello")).error_kind == "mcp_connection_lost"
    assert len(pids(tmp_path)) == 2
    await tools.kind.close()


async def test_a_call_that_does_no_harm_is_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = "sum(1 for _ in open(began.name)) > 1 or os._exit(3)"
    tools = await Tools(old(tmp_path, first, perdure={"idempotent": True})).ask()
    assert (await tools.call("hello")).status == "success"
    assert len(pids(tmp_path)) == 2
    assert (
        "The call of 'hello' is tried again: MCP server 'tests': the connection broke: "
        in caplog.text
    )
    await tools.kind.close()


async def test_idle_connections_and_closed_ones_leave_no_process(tmp_path: Path) -> None:
    tools = await Tools(old(tmp_path, "time.sleep(0.2)"), McpKind(idle_seconds=1.0)).ask()
    pid = int((await tools.call("hello")).text)
    assert (
        await asyncio.gather(tools.call("hello"), tools.call("hello"))
        == [ToolResult.of_text(str(pid))] * 2
    )
    await wait_until(lambda: not is_alive(pid))
    waiting = asyncio.create_task(tools.call("hello"))
    await wait_until(lambda: len(pids(tmp_path)) == 2)
    [other] = pids(tmp_path) - {pid}
    await tools.kind.close()
    assert (await waiting).error_kind == "mcp_connection_lost"
    assert not is_alive(other)


USER = """
import asyncio, json, sys
from tests.support.mcp_stage import Tools

async def main():
    tools = await Tools(json.loads(sys.argv[1])).ask()
    print((await tools.call("hello")).text, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_a_server_ends_with_its_worker_that_was_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", USER, json.dumps(old(tmp_path))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as worker:
        assert worker.stdout
        pid = int(worker.stdout.readline())
        assert is_alive(pid)
        worker.kill()
    await wait_until(lambda: not is_alive(pid))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (
            {"command": "/none/server", "args": []},
            r"\(/none/server\).*it can't be started: .*No such file",
        ),
        (
            {"command": sys.executable, "args": ["-c", "import sys; sys.exit('no licence')"]},
            "its process ended; it wrote: no licence",
        ),
        (
            {
                "command": "sh",
                "args": ["-c", "echo Welcome! >&2; read one; read two"],
                "discoveryTimeout": 1.5,
            },
            r"it does not answer within 1\.5 seconds; it wrote: Welcome!",
        ),
        (
            {"args": ["-c", "while True: print(1)"], "discoveryTimeout": 0.4},
            "it does not answer within",
        ),
        ({"cwd": "/none"}, "it can't be started: .*/none"),
    ],
    ids=["absent", "ends", "silent", "chatty", "no folder"],
)
async def test_a_server_that_does_not_come_up(options: JsonObject, why: str) -> None:
    tools = Tools(on_stdio(options=options))
    with pytest.raises(ToolOfferError, match=why) as raised:
        await tools.ask()
    assert "check options.command, and that the server runs; options.discoveryTimeout" in str(
        raised.value
    )
    await tools.kind.close()
    del tools, raised
    gc.collect()  # A pipe that is still open warns, which fails the test.


async def test_what_a_server_writes_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "perdure.tools.mcp")
    code = "import sys; sys.stderr.write('x' * 9000 + '\\nready'); sys.exit()"
    with pytest.raises(ToolOfferError):
        await Tools(on_stdio(options={"args": ["-c", code]})).ask()
    first, *_ = [record.getMessage() for record in caplog.records]
    assert first == f"MCP server 'tests': {'x' * 2000}"


async def test_an_old_server_that_ends_when_it_is_asked_for_its_version(tmp_path: Path) -> None:
    tools = await Tools(old(tmp_path)).ask()
    assert tools.names == ["hello"]
    assert (await tools.call("hello")).status == "success"
    await tools.kind.close()


OLD = """
import json, os, signal, sys, time

def send(id, result):
    print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)

for number, line in enumerate(sys.stdin):
    message = json.loads(line)
    method = message["method"]
    if not number and method != "initialize":
        sys.exit("expected initialize")
    if method == "initialize":
        info = {"name": "old", "version": "1"}
        send(message["id"], {"protocolVersion": "2025-03-26", "capabilities": {"tools": {}}, "serverInfo": info})
    elif method == "tools/list":
        send(message["id"], {"tools": [{"name": "hello", "inputSchema": {"type": "object"}}]})
    elif method == "tools/call":
        with open(os.path.join(os.path.dirname(__file__), "began"), "a") as began:
            began.write(f"{os.getpid()}\\n")
        ...
        send(message["id"], {"content": [{"type": "text", "text": str(os.getpid())}]})
"""
