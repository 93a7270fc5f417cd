"""Servers as they are found: those that forget sessions, and whose lists have odd ends."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from perdure.json_types import JsonObject
from perdure.messages import ImagePart, TextPart
from perdure.tools.kind import ToolOfferError
from tests.support.hosts import serving
from tests.support.mcp_scripted import HELLO, Scripted, said, text
from tests.support.mcp_server import PIXEL
from tests.support.mcp_stage import Tools, on_http
from tests.support.waiting import wait_until


def refusing(
    status: int, code: int | None = None, message: str = "", *, with_id: bool = False
) -> Any:
    """How a server refuses a request of a session that it does not know: in plain text without a
    code.
    """

    def refuse(asked: JsonObject) -> Response:
        if code is None:
            return Response(message, status)
        error = {"code": code, "message": message}
        return JSONResponse(
            {"jsonrpc": "2.0", "id": asked["id"] if with_id else None, "error": error}, status
        )

    return refuse


FORGOTTEN = {
    "404": refusing(404),
    "404 with JSON": refusing(404, -32600, "Session not found"),
    "404 as the TypeScript package": refusing(404, -32001, "Session not found"),
    "410": refusing(410, None, "Gone"),
    "400 with JSON": refusing(400, -32000, "Bad Request: No valid session ID provided"),
    "400 not initialized": refusing(400, -32000, "Bad Request: Server not initialized"),
    "400 with an id": refusing(400, -32600, "Session terminated", with_id=True),
    "400 in text": refusing(400, None, "Invalid session ID"),
    "400 in other words": refusing(400, None, "Could not find session 1"),
    "401 in text": refusing(401, None, "Unauthorized: Session not found"),
    "422": refusing(422, None, "the session has expired"),
    "200 with an error": refusing(200, -32600, "Session not found", with_id=True),
    "200 with -32000": refusing(200, -32000, "The session does not exist any more", with_id=True),
}


class Forgetful(Scripted):
    """One that has forgotten the sessions up to a number."""

    def __init__(self, refuse: Callable[[JsonObject], Response]) -> None:
        super().__init__(lambda request, message: text(message, "hi"))
        self.refuse = refuse
        self.refused = 0
        self.forgotten = 0

    async def serve(self, request: Request) -> Response:
        session = request.headers.get("mcp-session-id")
        if request.method != "POST" or session is None or int(session) > self.forgotten:
            return await super().serve(request)
        message = await request.json()
        self.refused += message.get("method") == "tools/call"
        return self.refuse(message) if "id" in message else Response(status_code=202)


@pytest.mark.parametrize("way", FORGOTTEN)
async def test_a_session_that_the_server_has_forgotten_is_opened_anew(way: str) -> None:
    """The call was refused at the door, and is made again once, whatever the tool does."""
    server = Forgetful(FORGOTTEN[way])
    with serving(server.app) as url:
        tools = await Tools(on_http(f"{url}/mcp", perdure={"idempotent": False})).ask()
        assert (await tools.call("hello")).text == "hi"
        server.forgotten = 1
        assert (await tools.call("hello")).text == "hi"
        assert (server.sessions, server.refused, server.calls) == (2, 1, ["1", "2"])
        server.forgotten = 2
        assert (await tools.ask()).names == ["hello"]
        assert server.sessions == 3
        await tools.kind.close()


async def test_a_server_of_the_older_protocol_is_not_told_that_a_person_can_be_asked() -> None:
    """Its question would need the connection of the call to outlive the worker; one of the newer
    ends the call.
    """
    told: list[JsonObject] = []

    class Noting(Scripted):
        async def serve(self, request: Request) -> Response:
            params = (await request.json()).get("params", {}) if request.method == "POST" else {}
            said = params.get("_meta", {}).get("io.modelcontextprotocol/clientCapabilities")
            if (capabilities := params.get("capabilities", said)) is not None:
                told.append(capabilities)
            return await super().serve(request)

    with serving(Noting().app) as url:
        tools = await Tools(on_http(f"{url}/mcp")).ask()
        await tools.kind.close()
    newer, older = told
    assert set(newer["elicitation"]) == {"form", "url"}
    assert "elicitation" not in older


async def test_a_tool_that_speaks_of_a_session_of_its_own_has_answered() -> None:
    """The server still knows the connection's: nothing is opened anew, and nothing called again."""
    refuse = refusing(200, -32600, "Browser session not found", with_id=True)
    server = Scripted(lambda request, message: refuse(message))
    with serving(server.app) as url:
        tools = await Tools(on_http(f"{url}/mcp", perdure={"idempotent": True})).ask()
        result = await tools.call("hello")
        assert ("Browser session not found" in result.text, result.outcome_unknown) == (True, True)
        assert (server.sessions, server.calls) == (1, ["1"])
        await tools.kind.close()


class Tasked(Scripted):
    """One of 2025-11-25 whose tool is called as a task alone, as its list says."""

    def __init__(self, *, declares: bool = True) -> None:
        tool = {**HELLO[0], "execution": {"taskSupport": "required"}}
        super().__init__(lambda request, message: text(message, "at once"), tools=[tool])
        self.declares = declares
        self.asked: list[str] = []

    async def serve(self, request: Request) -> Response:
        message = await request.json() if request.method == "POST" else {}
        params = message.get("params", {})
        task = {
            "taskId": "t1",
            "status": "working",
            "ttl": None,
            "createdAt": "2026-01-01T00:00:00Z",
        }
        match message.get("method"):
            case "initialize" if self.declares:
                info = {"name": "tasks", "version": "1"}
                able: JsonObject = {
                    "tools": {},
                    "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}},
                }
                return said(
                    message,
                    {"protocolVersion": "2025-11-25", "capabilities": able, "serverInfo": info},
                )
            case "tools/call" if "task" in params:
                self.asked.append("task")
                return said(message, {"task": {**task, "lastUpdatedAt": task["createdAt"]}})
            case "tasks/result":
                self.asked.append(f"result of {params['taskId']}")
                if params["taskId"] == "t1" and self.asked.count("task") > 1:
                    await asyncio.Event().wait()
                return text(message, "done as a task")
            case "tasks/cancel":
                self.asked.append(f"cancel {params['taskId']}")
                return said(
                    message, {**task, "status": "cancelled", "lastUpdatedAt": task["createdAt"]}
                )
        return await super().serve(request)


async def test_a_tool_that_demands_tasks_is_called_as_one() -> None:
    """Its result is asked for; a call that is given up cancels it."""
    server = Tasked()
    with serving(server.app) as url:
        tools = await Tools(on_http(f"{url}/mcp")).ask()
        assert (await tools.call("hello")).text == "done as a task"
        waiting = asyncio.create_task(tools.call("hello"))
        await wait_until(lambda: len(server.asked) == 4)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert server.asked == ["task", "result of t1"] * 2 + ["cancel t1"]
        await tools.kind.close()


class Wordless:
    """One of 2026-07-28 that leaves out what each of its results has to say, its kind."""

    def __init__(self) -> None:
        self.app = Starlette(routes=[Route("/mcp", self.serve, methods=["POST"])])

    async def serve(self, request: Request) -> Response:
        message = await request.json()
        content = [
            {"type": "text", "text": "hi"},
            {"type": "image", "data": PIXEL, "mimeType": "image/png"},
        ]
        results: JsonObject = {
            "server/discover": {
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}},
                **CACHE,
            },
            "tools/list": {"tools": HELLO, **CACHE},
            "tools/call": {"content": content[1:], "structuredContent": {"pixels": 1}},
        }
        return said(message, results[message["method"]])


CACHE = {"ttlMs": 0, "cacheScope": "private"}


async def test_results_that_do_not_say_of_what_kind_they_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """They are whole, with one warning for the connection. An image beside structured content stays
    an image.
    """
    with serving(Wordless().app) as url:
        tools = await Tools(on_http(f"{url}/mcp")).ask()
        for _ in range(2):
            words, image = (await tools.call("hello")).parts
            assert isinstance(words, TextPart)
            assert words.value == '{"pixels":1}'
            assert isinstance(image, ImagePart)
            assert image.source == PIXEL
        await tools.kind.close()
    assert caplog.text.count("leaves out resultType") == 1


CURSORS: dict[str, list[str]] = {
    "empty": [""],
    "standing": ["8", "8"],
    "in a circle": ["1", "2", "1"],
    "empty at last": ["1", ""],
    "without end": [str(number) for number in range(200)],
}


class Paged(Scripted):
    """One whose pages have a tool and a cursor each."""

    def __init__(self, cursors: list[str]) -> None:
        super().__init__()
        self.cursors = iter(cursors)
        self.numbers = itertools.count()

    async def serve(self, request: Request) -> Response:
        if request.method == "POST" and (message := await request.json())["method"] == "tools/list":
            tool = {**HELLO[0], "name": f"tool{next(self.numbers)}"}
            return said(message, {"tools": [tool], "nextCursor": next(self.cursors)})
        return await super().serve(request)


@pytest.mark.parametrize("name", CURSORS)
async def test_a_cursor_that_leads_nowhere_ends_the_list(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What came until then is offered."""
    server = Paged(CURSORS[name])
    with serving(server.app) as url:
        tools = await Tools(on_http(f"{url}/mcp")).ask()
        pages = min(len(CURSORS[name]), 101)
        assert tools.names == [f"tool{number}" for number in range(pages)]
        assert f"ends after {pages} page" in caplog.text
        await tools.kind.close()


async def test_a_server_with_the_older_transport_alone_is_refused_with_that_sentence() -> None:
    async def refuse(request: Request) -> Response:
        return Response("Method Not Allowed", 405)

    with serving(Starlette(routes=[Route("/mcp", refuse, methods=["GET", "POST"])])) as url:
        tools = Tools(on_http(f"{url}/mcp"))
        why = "HTTP 405 Method Not Allowed: .*only the older transport, HTTP.SSE, needs a bridge"
        with pytest.raises(ToolOfferError, match=why):
            await tools.ask()
        await tools.kind.close()
