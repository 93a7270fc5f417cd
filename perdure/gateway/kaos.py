"""Serves agents as KAOS agents over HTTP: health, memory and card, and chat completions with
progress in the stream.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Sequence

from pydantic import PositiveInt
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from .._version import __version__
from ..client import RunHandle
from ..errors import RunNotFound
from ..events import RunEvent
from ..interop.kaos.events import MemoryEvent, run_events
from ..interop.kaos.sessions import SessionEvents
from ..json_types import JsonObject
from ..messages import DELEGATED
from ..options import RunOptions
from ..protocol.names import SESSION_WORKFLOW
from ..protocol.search_attributes import AGENT, quote
from ..schema import object_schema
from ..worker.health import why_unwell
from .gateway import Gateway, OfferedAgent
from .held import unless_held
from .identity import Identity
from .openai_chat import ChatCompletion
from .openai_wire import ChatMessage, message_of, request_in
from .operations import json_body, known_route
from .problems import HttpProblem, Lenient
from .words import text_and_parts

SESSION_HEADER = "x-session-id"
MAX_EVENTS = 1000
MAX_SESSIONS = 1000
SESSIONS_READ = 20
"""The number of the newest sessions that are read for events without a named session."""


class KaosDialect:
    """`/kaos/AGENT`; a single agent's routes are also at the root, except chat completions, which
    are OpenAI's.
    """

    name = "kaos"

    def routes(self, gateway: Gateway) -> list[BaseRoute]:
        """Return the routes of the dialect."""
        events = SessionEvents(gateway.client)
        routes: list[BaseRoute] = []
        for offer in gateway.offers.values():
            agent = _KaosAgent(gateway, offer, events)
            base = f"/kaos/{offer.name}"
            for prefix in [base, ""] if len(gateway.offers) == 1 else [base]:
                routes += agent.routes(prefix)
            routes.append(
                known_route(
                    f"{base}/v1/chat/completions", "POST", gateway, agent.complete, _refusal
                )
            )
            routes.append(Route(f"{base}/.well-known/agent", agent.card(base), methods=["GET"]))
        return routes

    def refusal(self, problem: HttpProblem) -> Response:
        """Return the response to a request that is refused unread."""
        return _refusal(problem)


def _refusal(problem: HttpProblem) -> Response:
    body = {"detail": str(problem), "kind": problem.kind}
    return JSONResponse(body, status_code=problem.status, headers=problem.headers)


class _KaosAgent:
    """One agent, as in a KAOS pod."""

    def __init__(self, gateway: Gateway, offer: OfferedAgent, events: SessionEvents) -> None:
        self._gateway = gateway
        self._offer = offer
        self._events = events

    def routes(self, prefix: str) -> list[BaseRoute]:
        return [
            Route(f"{prefix}/health", self._health, methods=["GET"]),
            Route(f"{prefix}/ready", self._ready, methods=["GET"]),
            known_route(
                f"{prefix}/memory/events", "GET", self._gateway, self._memory_events, _refusal
            ),
            known_route(
                f"{prefix}/memory/sessions", "GET", self._gateway, self._memory_sessions, _refusal
            ),
        ]

    async def _health(self, request: Request) -> Response:
        return JSONResponse(self._state("healthy"))

    async def _ready(self, request: Request) -> Response:
        why = await why_unwell(self._gateway.client.service_client)
        return (
            JSONResponse({**self._state("unready"), "why": why}, 503)
            if why
            else JSONResponse(self._state("ready"))
        )

    def _state(self, status: str) -> JsonObject:
        return {"status": status, "name": self._offer.name, "timestamp": int(time.time())}

    def card(self, base: str) -> Callable[[Request], Awaitable[Response]]:
        """Return the handler of the card by which KAOS agents find each other."""

        async def show(request: Request) -> Response:
            name, agent = self._offer.name, self._offer.agent
            skill = {
                "name": name,
                "description": self._offer.description,
                "inputSchema": object_schema(agent.inputs or []),
            }
            url = f"{request.url.scheme}://{request.url.netloc}{base}"
            about = {
                "name": name,
                "description": self._offer.description,
                "url": url,
                "version": __version__,
                "skills": [skill],
            }
            return JSONResponse({**about, "capabilities": ["message_processing", "task_execution"]})

        return show

    async def complete(self, request: Request, identity: Identity) -> Response:
        """Answer a Chat Completions request; the model that it names has no effect."""
        body = await json_body(request)
        if not body.get("messages"):
            raise HttpProblem(400, "invalid_request", "messages are required")
        asked = request_in({"model": self._offer.name, **body})
        if not any(each.role in ("user", DELEGATED) for each in asked.messages):
            raise HttpProblem(400, "invalid_request", "No user or task-delegation message found")
        return await _KaosCompletion(self._gateway, identity, request, asked, self._offer).answer()

    async def _memory_events(self, request: Request, identity: Identity) -> Response:
        asked = _EventsQuery.model_validate(dict(request.query_params))
        limit = min(asked.limit, MAX_EVENTS)
        if session := asked.session_id:
            events = await self._events_of(identity, session, limit)
        else:
            newest = await self._sessions(identity, SESSIONS_READ)
            found = [
                each for id in newest for each in await self._known_events(identity, id, limit)
            ]
            events = sorted(found, key=lambda each: each.timestamp)[-limit:]
        told = [each.to_dict() for each in events]
        return JSONResponse({"agent": self._offer.name, "events": told, "total": len(told)})

    async def _events_of(self, identity: Identity, id: str, limit: int) -> list[MemoryEvent]:
        """Return the events of a session, or of a run without one. Raises `HttpProblem` if neither
        exists.
        """
        try:
            session = await self._gateway.session(identity, id)
        except HttpProblem:
            found = await self._gateway.run(identity, id)
            return (await run_events(self._gateway.client, found.id, found.first_run_id))[-limit:]
        return await self._events.newest(session.id, limit)

    async def _known_events(self, identity: Identity, id: str, limit: int) -> list[MemoryEvent]:
        """Return the events that still exist: the list of sessions is older than this call."""
        try:
            return await self._events_of(identity, id, limit)
        except (HttpProblem, RunNotFound):
            return []

    async def _memory_sessions(self, request: Request, identity: Identity) -> Response:
        ids = (await self._sessions(identity, MAX_SESSIONS))[::-1]
        return JSONResponse({"agent": self._offer.name, "sessions": ids, "total": len(ids)})

    async def _sessions(self, identity: Identity, limit: int) -> list[str]:
        """Return the ids of the agent's newest sessions, the newest first."""
        mine = [f"{AGENT.name} = {quote(self._offer.agent.name or self._offer.name)}"]
        found = await self._gateway.list(identity, mine, limit=limit, workflow=SESSION_WORKFLOW)
        return list(dict.fromkeys(each.id for each in found))


class _EventsQuery(Lenient):
    limit: PositiveInt = 100
    session_id: str = ""


class _KaosCompletion(ChatCompletion):
    """One request: a turn of the session that it names, otherwise a run; the stream shows the
    calls.
    """

    origin = "gateway:kaos"
    options = RunOptions(stream=True, progress=True)

    def _session_id(self) -> str:
        named = self._request.headers.get(SESSION_HEADER) or getattr(self._body, "session_id", None)
        return named.strip() if isinstance(named, str) else ""

    async def _send_to_session(self, id: str, users: Sequence[ChatMessage], key: str) -> RunHandle:
        """Send the last message of a user, or the last task: the session has the rest of the
        history.
        """
        session = await self._gateway.session(self._identity, id, self._offer)
        last = users[-1]
        text, parts = text_and_parts(message_of(last).parts)
        run = await session.send(
            text,
            parts=parts,
            while_busy="queue",
            message_id=key or None,
            by=self._identity.name,
            role="task-delegation" if last.role == DELEGATED else "user",
        )
        await unless_held(self._gateway, run.id, run.agent_name())  # waits until the turn has begun
        return run

    def _frame_beside(self, id: str, event: RunEvent) -> bytes:
        if event.type == "progress":
            return self._chunk(id, {"content": json.dumps(event.data, ensure_ascii=False)})
        return b""
