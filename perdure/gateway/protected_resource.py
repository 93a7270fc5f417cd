"""Lets programs discover the issuers of accepted tokens (RFC 9728, RFC 6750)."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .gateway import Gateway
from .identity import OpenId

WELL_KNOWN = "/.well-known/oauth-protected-resource"


def issuers_of(gateway: Gateway) -> list[OpenId]:
    """Return the issuers of accepted tokens."""
    return [each for each in gateway.authenticators if isinstance(each, OpenId)]


def metadata_routes(gateway: Gateway) -> list[Route]:
    """Return the routes of each address's metadata document; none if no issuer is configured."""
    issuers = [each.settings for each in issuers_of(gateway)]

    async def show(request: Request) -> Response:
        asked = f"{request.url.scheme}://{request.url.netloc}{request.url.path.removeprefix(WELL_KNOWN)}"
        names = [each.audience for each in issuers if is_within(asked, each.audience)]
        document = {
            "resource": names[0] if names else asked,
            "authorization_servers": [each.issuer for each in issuers],
            "bearer_methods_supported": ["header"],
        }
        return JSONResponse(document)

    return [
        Route(path, show, methods=["GET"])
        for path in (WELL_KNOWN, f"{WELL_KNOWN}/{{path:path}}")
        if issuers
    ]


def is_within(address: str, whole: str) -> bool:
    """Return whether an address is this one, or below it."""
    return whole.startswith(("https://", "http://")) and f"{address}/".startswith(
        f"{whole.rstrip('/')}/"
    )


class Challenges:
    """Adds the expected credentials, and the URL of the metadata, to each response of the status
    401.
    """

    def __init__(self, app: ASGIApp, *, has_issuer: bool) -> None:
        self._app = app
        self._has_issuer = has_issuer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_challenge(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 401:
                MutableHeaders(scope=message)["WWW-Authenticate"] = self._challenge(Request(scope))
            await send(message)

        await self._app(scope, receive, send_challenge if scope["type"] == "http" else send)

    def _challenge(self, request: Request) -> str:
        said = ['error="invalid_token"'] if "authorization" in request.headers else []
        if self._has_issuer:
            place = f"{request.url.scheme}://{request.url.netloc}{WELL_KNOWN}{request.url.path}"
            said.append(f'resource_metadata="{place}"')
        return f"Bearer {', '.join(said)}".strip()
