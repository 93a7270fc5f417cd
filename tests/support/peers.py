"""Remote agents for tests: one that speaks Chat Completions and notes what it is told, with a card
of any form.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from perdure.json_types import JsonObject

KAOS_CARD = {
    "name": "researcher",
    "description": "Finds things out.",
    "url": "http://researcher.example:8000",
    "skills": [
        {"name": "search", "description": "Searches the web.", "inputSchema": {"type": "object"}}
    ],
    "capabilities": ["message_processing", "task_execution", "tool_execution"],
}
"""As an agent of KAOS showed it in 2025 and early 2026."""
KAOS_TASKS_CARD = {
    "name": "researcher",
    "description": "Finds things out.",
    "url": "http://researcher.example:8000",
    "version": "0.8.4",
    "protocolVersion": "0.3.0",
    "skills": [{"id": "search", "name": "search", "description": "Searches the web.", "tags": []}],
    "capabilities": {"streaming": True, "pushNotifications": False, "stateTransitionHistory": True},
    "supportedProtocols": ["jsonrpc"],
    "defaultInputModes": ["application/json"],
    "defaultOutputModes": ["application/json"],
}
"""As an agent of KAOS shows it since it has tasks."""


@dataclass
class Peer:
    """Answers what a task says: `say TEXT`, `status CODE`, `body TEXT`, `huge`, `hold`; its card is
    at `card_path`.
    """

    card: Any = None
    card_path: str = "/.well-known/agent"
    roles: tuple[str, ...] = ("user", "task-delegation")
    """Those that a request's last message may have; another one is answered 400."""
    bodies: list[JsonObject] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    cards: int = 0
    """How often its card was asked for."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        response = await (self._chat(request) if request.method == "POST" else self._card(request))
        await response(scope, receive, send)

    async def asked(self) -> bool:
        """Whether it was handed a task."""
        return bool(self.bodies)

    async def _card(self, request: Request) -> Response:
        self.cards += 1
        if self.card is None or request.url.path != self.card_path:
            return JSONResponse({"detail": "Not Found"}, 404)
        return self.card if isinstance(self.card, Response) else JSONResponse(self.card)

    async def _chat(self, request: Request) -> Response:
        if request.url.path != "/v1/chat/completions":
            return JSONResponse({"detail": "Not Found"}, 404)
        body = json.loads(await request.body())
        if body["messages"][-1]["role"] not in self.roles:
            return JSONResponse({"detail": "No user message found"}, 400)
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        word, _, rest = body["messages"][-1]["content"].partition(" ")
        match word:
            case "status":
                return JSONResponse({"detail": "not now"}, int(rest))
            case "body":
                return Response(rest, media_type="application/json")
            case "huge":
                return Response(
                    json.dumps(completion("x" * 5_000_000)), media_type="application/json"
                )
            case "hold":
                await asyncio.sleep(60)
        return JSONResponse(completion(rest or word))


def completion(content: Any) -> JsonObject:
    """An answer by Chat Completions."""
    message = {"role": "assistant", "content": content}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
    }
