"""An MCP server over streamable HTTP whose answers a test decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from perdure.json_types import JsonObject

HELLO = [{"name": "hello", "inputSchema": {"type": "object"}}]


class Scripted:
    """A server of the older protocol that answers `tools/call` as a test says; it counts sessions
    and calls.
    """

    def __init__(
        self,
        answer: Callable[[Request, JsonObject], Response] | None = None,
        slow: Any = None,
        tools: list[JsonObject] = HELLO,
    ) -> None:
        self.answer = answer
        self.tools = tools
        self.slow = slow
        self.url = ""
        self.sessions = 0
        self.calls: list[str | None] = []
        self.headers: list[dict[str, str]] = []
        self.app = Starlette(routes=[Route("/mcp", self.serve, methods=["GET", "POST", "DELETE"])])

    async def serve(self, request: Request) -> Response:
        self.headers.append(dict(request.headers))
        if request.method != "POST":
            return Response(status_code=405)
        message = await request.json()
        method = message["method"]
        if "id" not in message:
            return Response(status_code=202)
        if method == "initialize":
            self.sessions += 1
            info = {"name": "old", "version": "1"}
            result = {
                "protocolVersion": "2025-03-26",
                "capabilities": {"tools": {}},
                "serverInfo": info,
            }
            return said(message, result, {"mcp-session-id": str(self.sessions)})
        if method == "tools/list":
            return said(message, {"tools": self.tools})
        if method != "tools/call":
            error = {"code": -32601, "message": "unknown"}
            return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "error": error}, 404)
        self.calls.append(request.headers.get("mcp-session-id"))
        assert self.answer is not None
        if message["params"]["arguments"].get("wait"):
            await asyncio.Event().wait()
        if message["params"]["arguments"].get("slow"):
            return await self.slow(request, message)
        return self.answer(request, message)


def said(
    message: JsonObject, result: JsonObject, headers: dict[str, str] | None = None
) -> JSONResponse:
    return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": result}, headers=headers)


def text(message: JsonObject, words: str) -> JSONResponse:
    return said(message, {"content": [{"type": "text", "text": words}]})
