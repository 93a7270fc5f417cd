"""Servers that a remote agent should not be: each answers in one odd way."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from perdure.json_types import JsonObject

Answer = Callable[[Request], Awaitable[Response]]


def server(answer: Answer, card: JsonObject | None = None) -> ASGIApp:
    """An application that answers every request so, but for the card's, if one is given; its URLs
    are completed.
    """

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if card is not None and request.url.path == "/.well-known/agent-card.json":
            response: Response = Response(
                json.dumps(card).replace("{base}", str(request.base_url)[:-1])
            )
        else:
            response = await answer(request)
        await response(scope, receive, send)

    return app


def answers(body: str | bytes, status: int = 200, **headers: str) -> Answer:
    """Always this body."""

    async def answer(request: Request) -> Response:
        shown = {
            "content-type": "application/json",
            **{name.replace("_", "-"): text for name, text in headers.items()},
        }
        return Response(body, status, shown)

    return answer


def redirects(to: str) -> Answer:
    """Elsewhere, by a status that keeps the method."""

    async def answer(request: Request) -> Response:
        return RedirectResponse(to, 307)

    return answer


async def never(request: Request) -> Response:
    """Nothing, for long."""
    await asyncio.sleep(60)
    return Response()


def card(**fields: Any) -> JsonObject:
    """A card in JSON; `{base}` is where it is served."""
    interface = {"url": "{base}/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    return {
        "name": "Odd",
        "description": "Odd.",
        "version": "1",
        "supportedInterfaces": [interface],
        **fields,
    }


def rpc(result: Any) -> str:
    """A JSON-RPC response."""
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": result})


def bomb() -> bytes:
    """20 MB of nothing in 20 kB."""
    return gzip.compress(b" " * 20_000_000)


def nested() -> str:
    """JSON that is deeper than parsers like."""
    return '{"result":' + "[" * 100_000 + "]" * 100_000 + "}"
