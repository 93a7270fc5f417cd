"""The HTTP application: dialects, health, and the checks of every request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Protocol

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ..errors import ConfigurationError
from ..prompty.worker_limits import accepts_host
from ..worker.health import LIVE, READY, why_unwell
from .ai_sdk import AiSdkDialect
from .gateway import Gateway
from .kaos import KaosDialect
from .limits import USUAL_LIMITS, Limits, RequestLimiter
from .octopus import OctopusDialect
from .openai_chat import ChatCompletions
from .openai_responses import Responses
from .openai_wire import refusal_response
from .operations import problem_json
from .own import OwnDialect
from .page import PageDialect
from .problems import HttpProblem
from .protected_resource import Challenges, issuers_of, metadata_routes

ENTRY_POINT_GROUP = "perdure.dialects"
"""An installed package adds a dialect by an entry point in this group: a class without constructor
arguments."""


class Dialect(Protocol):
    """One protocol that the gateway speaks.

    A dialect may have a method `lifespan()`, an async context manager that stays open while the
    gateway accepts requests. It may have a method `refusal(problem)`, which returns the response,
    in its own form, to a request that is too large or exceeds a limit.
    """

    name: str

    def routes(self, gateway: Gateway) -> Sequence[BaseRoute]:
        """Return the dialect's routes. Each route identifies the client with `gateway.identify`."""


def dialects() -> list[Dialect]:
    """Return perdure's own dialects and those of installed packages. Raises `ConfigurationError`
    for a broken one.
    """
    found: list[Dialect] = [OwnDialect(), ChatCompletions(), Responses()]
    found += [KaosDialect(), OctopusDialect(), AiSdkDialect(), PageDialect()]
    if find_spec("mcp"):
        from .mcp_server import McpDialect  # from a separate extra

        found.append(McpDialect())
    if find_spec("a2a"):
        from .a2a_server import A2aDialect  # likewise

        found.append(A2aDialect())
    if find_spec("ag_ui"):
        from .ag_ui import AgUiDialect  # likewise

        found.append(AgUiDialect())
    for entry_point in entry_points(group=ENTRY_POINT_GROUP):
        try:
            found.append(entry_point.load()())
        except Exception as error:
            raise ConfigurationError(
                f"The dialect {entry_point.name!r} ({entry_point.value}) fails: {error}"
            ) from error
    return found


def gateway_app(
    gateway: Gateway,
    *,
    hosts: Collection[str] = ("*",),
    origins: Collection[str] = (),
    limits: Limits = USUAL_LIMITS,
) -> Starlette:
    """Return the application.

    `hosts` are the accepted host names; `*.example.com` stands for all below it. Only pages of
    `origins` may send requests from a browser. `limits` apply to this process.
    """

    async def live(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(request: Request) -> Response:
        if (
            why := "it ends"
            if gateway.ending.has_begun
            else await why_unwell(gateway.client.service_client)
        ):
            return JSONResponse({"status": "away", "why": why}, status_code=503)
        return JSONResponse({"status": "ok"})

    routes: list[BaseRoute] = [Route(LIVE, live), Route(READY, ready), *metadata_routes(gateway)]
    spoken = dialects()
    limiter = RequestLimiter(limits, gateway.ending, gateway.authenticators)
    for dialect in spoken:
        for route in dialect.routes(gateway):
            if isinstance(route, Route | Mount):
                route.app = limiter.guarding(route.app, getattr(dialect, "refusal", problem_json))
            routes.append(route)
    middleware = [
        Middleware(_OwnPages, hosts=hosts, origins=frozenset(origins)),
        Middleware(Challenges, has_issuer=bool(issuers_of(gateway))),
    ]
    if origins:
        middleware.append(
            Middleware(
                CORSMiddleware,
                allow_origins=list(origins),
                allow_methods=["GET", "POST", "DELETE"],
                allow_headers=["*"],
                expose_headers=[
                    "Location",
                    "Content-Location",
                    "Retry-After",
                    "WWW-Authenticate",
                    "x-perdure-run",
                ],
            )
        )

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for each in spoken:
                if begin := getattr(each, "lifespan", None):
                    await stack.enter_async_context(begin())
            if gateway.push:
                stack.callback(gateway.push.close)
            yield

    handlers = {HTTPException: _no_such_address}
    return Starlette(
        routes=routes, middleware=middleware, lifespan=lifespan, exception_handlers=handlers
    )


async def _no_such_address(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path
    text = f"{request.method} {path:.200}: {error.detail}"
    refuse = refusal_response if path.startswith("/v1/") else problem_json
    return refuse(HttpProblem(error.status_code, "no_such_address", text, headers=error.headers))


class _OwnPages:
    """Refuses requests by other host names, behind which a page of another site may be, and from
    pages of other origins: a browser sends some requests without a preflight.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str], origins: frozenset[str]) -> None:
        self._app = app
        self._hosts = hosts
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            origin, host = headers.get("origin"), headers.get("host", "")
            own = {f"{scheme}://{host}" for scheme in ("http", "https")}
            refused = None
            if not accepts_host(host, self._hosts):
                expected = ", ".join(sorted(self._hosts))
                refused = HttpProblem(
                    400, "host", f"the host is {host!r:.200}: expected {expected}"
                )
            elif origin and origin not in self._origins | own:
                refused = HttpProblem(
                    403,
                    "origin",
                    f"pages of {origin!r} may not send requests: allow them by --allow-origin",
                )
            if refused:
                await problem_json(refused)(scope, receive, send)
                return
        await self._app(scope, receive, send)
