"""A receiver of webhooks on loopback, which verifies what it takes with the library of Standard
Webhooks.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from standardwebhooks import Webhook
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from perdure.json_types import JsonObject
from perdure.payloads.codec_server.app import serve

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class Receiver:
    """Keeps what it takes; `answer` says with which status each request is answered."""

    def __init__(self, secret: str = SECRET) -> None:
        self.url = ""
        self.taken: list[tuple[str, JsonObject]] = []
        """Ids and bodies of what was answered by 2xx."""
        self.attempts: list[tuple[str, str]] = []
        """Ids and bodies of all requests."""
        self.answer: Callable[[int], int] = lambda number: 204
        self.location = ""
        """Where a redirect leads."""
        self._secret = secret

    def of_type(self, type: str) -> list[JsonObject]:
        """The data of each notice of this type that was taken."""
        return [body["data"] for _, body in self.taken if body["type"] == type]

    async def take(self, request: Request) -> Response:
        body = await request.body()
        # Raises for a signature that is wrong, which is an answer of 500.
        verified = Webhook(self._secret).verify(body, dict(request.headers))
        self.attempts.append((request.headers["webhook-id"], body.decode()))
        status = self.answer(len(self.attempts))
        if status < 300:
            self.taken.append((request.headers["webhook-id"], verified))
        headers = (
            {"location": self.location or f"{self.url}/elsewhere"} if 300 <= status < 400 else {}
        )
        return Response(status_code=status, headers=headers)

    async def take_a2a(self, request: Request) -> Response:
        body = json.loads(await request.body())
        known = [
            request.headers.get(name, "") for name in ("x-a2a-notification-token", "authorization")
        ]
        self.taken.append((" ".join(known), body))
        return Response(status_code=204)


@asynccontextmanager
async def receiving(secret: str = SECRET) -> AsyncIterator[Receiver]:
    """A receiver, for as long as the block runs."""
    receiver = Receiver(secret)
    routes = [
        Route("/a2a", receiver.take_a2a, methods=["POST"]),
        Route("/{path:path}", receiver.take, methods=["POST"]),
    ]
    async with serve(Starlette(routes=routes), "127.0.0.1", 0) as url:
        receiver.url = url
        yield receiver
