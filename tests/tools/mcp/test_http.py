"""Tools of servers over streamable HTTP: one of the official package, and some that misbehave."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from perdure.json_types import JsonObject
from perdure.tool_calls import ToolProgress
from perdure.tools.context import ToolContext
from perdure.tools.kind import ToolOfferError
from tests.support.hosts import serving
from tests.support.mcp_scripted import HELLO, Scripted, said, text
from tests.support.mcp_server import make_server
from tests.support.mcp_stage import ROOT, Tools, on_http
from tests.support.waiting import wait_until

SECRET = "s3cret-of-the-tests"


@pytest.fixture(scope="module")
def official() -> Iterator[str]:
    with serving(make_server().streamable_http_app()) as url:
        yield f"{url}/mcp"


@pytest.fixture(scope="module")
def scripted() -> Iterator[Scripted]:
    server = Scripted()
    with serving(server.app) as url:
        server.url = f"{url}/mcp"
        yield server


@pytest.fixture
async def shared(official: str) -> AsyncIterator[Tools]:
    tools = await Tools(on_http(official)).ask()
    yield tools
    await tools.kind.close()


async def test_fifty_calls_at_once_while_one_waits(shared: Tools, tmp_path: Path) -> None:
    told: list[ToolProgress] = []
    waiting = asyncio.create_task(
        shared.call("wait", ToolContext(report=told.append), text=str(tmp_path))
    )
    await wait_until(lambda: len(told) > 1)
    assert told[1].text.startswith("step")
    answers = await asyncio.gather(*(shared.call("echo", text=str(number)) for number in range(50)))
    assert [answer.text for answer in answers] == [str(number) for number in range(50)]
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await wait_until((tmp_path / "cancelled").exists)


async def test_the_key_and_headers_are_sent_and_nothing_else_is_told() -> None:
    server = Scripted(lambda request, message: text(message, "hi"))
    with serving(server.app) as url:
        connection = {"apiKey": SECRET}
        tools = await Tools(
            on_http(f"{url}/mcp", connection=connection, options={"headers": {"X-Team": "blue"}})
        ).ask()
        assert (await tools.call("hello")).text == "hi"
        await tools.kind.close()
    assert {headers.get("authorization") for headers in server.headers} == {f"Bearer {SECRET}"}
    assert {headers["x-team"] for headers in server.headers} == {"blue"}


async def test_calls_under_way_outlive_the_loss_that_another_call_sees() -> None:
    finish = threading.Event()

    async def slow(request: Request, message: JsonObject) -> Response:
        await asyncio.to_thread(finish.wait, 30)
        return text(message, "late")

    def answer(request: Request, message: JsonObject) -> Response:
        return (
            Response(status_code=404)
            if message["params"]["arguments"].get("lose")
            else text(message, "hi")
        )

    server = Scripted(answer, slow)
    with serving(server.app) as url:
        tools = await Tools(on_http(f"{url}/mcp")).ask()
        waiting = asyncio.create_task(tools.call("hello", slow=True))
        await wait_until(lambda: len(server.calls) == 1)
        assert "The tool was not executed" in (await tools.call("hello", lose=True)).text
        assert (await tools.call("hello")).text == "hi"
        finish.set()
        assert (await waiting).text == "late"
        assert server.calls == ["1", "1", "2", "3"]
        await tools.kind.close()


@pytest.mark.parametrize("code", [-32602, -32601, -32600, -32603, -32000])
async def test_what_a_tool_did_before_an_error_is_not_known(code: int) -> None:
    def answer(request: Request, message: JsonObject) -> Response:
        error = {"code": code, "message": "from within the tool"}
        return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "error": error})

    server = Scripted(answer)
    with serving(server.app) as url:
        tools = await Tools(on_http(f"{url}/mcp")).ask()
        result = await tools.call("hello")
        assert ("from within the tool" in result.text, result.outcome_unknown) == (True, True)
        assert len(server.calls) == 1
        await tools.kind.close()


def huge(request: Request, message: JsonObject) -> Response:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(18):
            yield b"x" * 1024 * 1024

    return StreamingResponse(pieces(), media_type="application/json")


def broken_off(request: Request, message: JsonObject) -> Response:
    async def pieces() -> AsyncIterator[bytes]:
        yield b'{"jsonrpc": '
        raise RuntimeError("the server breaks off")

    return StreamingResponse(
        pieces(), media_type="application/json", headers={"content-length": "1000"}
    )


def events_that_end(request: Request, message: JsonObject) -> Response:
    return Response(": nothing\n\n", media_type="text/event-stream")


ODD: dict[str, tuple[Callable[[Request, JsonObject], Response], str, str]] = {
    "unauthorized": (
        lambda request, message: Response("no " + SECRET, 401),
        "it answered HTTP 401 Unauthorized (check connection.apiKey or options.headers, and the "
        "variables",
        "not executed",
    ),
    "unavailable": (
        lambda request, message: Response("try later", 503),
        "it answered HTTP 503 Service Unavailable: try later",
        "",
    ),
    "refused": (
        lambda request, message: Response("no such thing", 400),
        "HTTP 400 Bad Request: no such",
        "not executed",
    ),
    "redirect": (
        lambda request, message: RedirectResponse("http://127.0.0.2:1/mcp", 307),
        "answered with an error: Redirect to http://127.0.0.2:1/mcp not followed",
        "",
    ),
    "html": (
        lambda request, message: Response("<p>Hello", media_type="text/html"),
        "its answer is neither JSON nor events, but 'text/html'",
        "",
    ),
    "no JSON": (
        lambda request, message: Response("oops", media_type="application/json"),
        "its response does not match this request: 'oops'",
        "",
    ),
    "another's answer": (
        lambda request, message: text({"id": 4711}, "hi"),
        'its response does not match this request: \'{"jsonrpc"',
        "",
    ),
    "no result": (
        lambda request, message: said(message, {"content": 5}),
        "against the protocol: content: Input should be a",
        "",
    ),
    "compressed": (
        lambda request, message: Response(b"\x1f\x8b", headers={"content-encoding": "gzip"}),
        "its answer is compressed, though that was declined",
        "",
    ),
    "huge": (huge, "its answer has more than 4,194,304 bytes", ""),
    "broken off": (broken_off, "the connection broke: ", ""),
    "events that end": (
        events_that_end,
        "the connection broke: SSE stream ended without a response",
        "",
    ),
}


@pytest.mark.parametrize("name", ODD)
async def test_odd_answers_become_error_results(name: str, scripted: Scripted) -> None:
    """Each at once, in its own call alone, and never tried again."""
    scripted.answer, expected, outcome = ODD[name]
    sessions, calls = scripted.sessions, len(scripted.calls)
    tools = await Tools(on_http(scripted.url)).ask()
    result = await asyncio.wait_for(tools.call("hello"), 10)
    assert (result.status, expected in result.text, outcome in result.text) == (
        "error",
        True,
        True,
    ), result.text
    assert result.outcome_unknown == (name not in ("unauthorized", "refused"))
    assert len(scripted.calls) == calls + 1
    scripted.answer = lambda request, message: text(message, "goes on")
    assert (await tools.call("hello")).text == "goes on"
    assert scripted.sessions == sessions + 1
    await tools.kind.close()


async def test_redirects_are_followed_on_the_server_s_own_host() -> None:
    async def move(request: Request) -> Response:
        return RedirectResponse("/mcp", 307)

    server = Scripted()
    server.app.add_route("/old", move, methods=["POST"])
    with serving(server.app) as url:
        tools = await Tools(on_http(f"{url}/old")).ask()
        assert tools.names == ["hello"]
        await tools.kind.close()


def test_without_the_package() -> None:
    code = (
        "import asyncio, sys; sys.modules['mcp'] = None; from tests.support.mcp_stage import "
        "Tools, on_http; asyncio.run(Tools(on_http('http://localhost/mcp')).ask())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (
        "ToolOfferError: kind: mcp needs the package mcp on the worker: pip install 'perdure[mcp]'"
        in done.stderr
    )


@pytest.mark.trial
async def test_calls_go_on_while_a_cancellation_is_not_accepted() -> None:
    """The server takes no notification any more, behind which others would wait."""

    async def stuck(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            message = await receive()
            if b'"notifications/cancelled"' in message["body"]:
                await asyncio.Event().wait()

            async def again() -> Any:
                return message

            return await server.app(scope, again, send)
        return await server.app(scope, receive, send)

    server = Scripted(lambda request, message: text(message, "hi"))
    with serving(stuck) as url:
        tools = await Tools(on_http(f"{url}/mcp")).ask()
        waiting = asyncio.create_task(tools.call("hello", wait=True))
        await wait_until(lambda: len(server.calls) == 1)
        waiting.cancel()
        assert (await asyncio.wait_for(tools.call("hello"), 10)).text == "hi"
        await tools.kind.close()


@pytest.mark.parametrize(
    ("tools", "why"),
    [
        (
            {"tools": "none"},
            "its answer is not a list of tools: tools: Input should be a valid list",
        ),
        (
            {"tools": [{**HELLO[0], "name": str(number)} for number in range(1001)]},
            "it has more than 1000 tools",
        ),
    ],
    ids=["no list", "many"],
)
async def test_lists_that_can_t_be(tools: JsonObject, why: str) -> None:
    server = Scripted()
    listed = Starlette(
        routes=[Route("/mcp", _listing(server, tools), methods=["GET", "POST", "DELETE"])]
    )
    with serving(listed) as url:
        asked = Tools(on_http(f"{url}/mcp"))
        with pytest.raises(ToolOfferError, match=why):
            await asked.ask()
        await asked.kind.close()


@pytest.mark.parametrize("status", [401, 404, 500])
async def test_a_server_that_refuses_to_connect(status: int) -> None:
    async def refuse(request: Request) -> Response:
        return Response(f"your key is {SECRET}", status)

    with serving(Starlette(routes=[Route("/mcp", refuse, methods=["POST"])])) as url:
        tools = Tools(on_http(f"{url}/mcp?key=of-the-query", connection={"apiKey": SECRET}))
        with pytest.raises(
            ToolOfferError, match=rf"MCP server 'tests' \({url}/mcp\).*HTTP {status}"
        ) as raised:
            await tools.ask()
        assert "of-the-query" not in str(raised.value)
        await tools.kind.close()


def _listing(server: Scripted, tools: JsonObject) -> Callable[[Request], Any]:
    async def serve(request: Request) -> Response:
        if (
            request.method == "POST"
            and (message := json.loads(await request.body()))["method"] == "tools/list"
        ):
            return said(message, tools)
        return await server.serve(request)

    return serve
