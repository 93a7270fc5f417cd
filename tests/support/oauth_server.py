"""A strict authorization server, and the official MCP server behind it: tokens for it alone, which
end and rotate.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from perdure.json_types import JsonObject

from .hosts import serving
from .mcp_server import make_server

CLIENT, SECRET = "robot", "the-robots-secret-of-the-tests"


@dataclass
class Authority:
    """Both servers; what they were asked, and how they misbehave."""

    seconds: int = 3600
    registers: bool = True
    denies: bool = False
    gives_refresh: bool = True
    failing: int = 0
    """So many requests for tokens are answered with 503."""
    issuer_in_metadata: str = ""
    issuer_in_return: str = ""
    scopes: str = "read"
    grants: list[str] = field(default_factory=list)
    """The grant type of each request for a token that was granted."""
    refused: list[str] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    """The tokens that the MCP server has seen."""
    url: str = ""
    server: str = ""
    metadata: str = ""
    """Where the MCP server says that its authorization server is; "" for the right one."""

    def __post_init__(self) -> None:
        self._clients: dict[str, JsonObject] = {
            CLIENT: {"client_secret": SECRET, "redirect_uris": None}
        }
        self._codes: dict[str, dict[str, str]] = {}
        self._refresh: dict[str, tuple[str, str]] = {}
        self._used: set[str] = set()
        self._access: dict[str, float] = {}

    @property
    def mcp(self) -> str:
        return f"{self.server}/mcp"

    @property
    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/.well-known/oauth-authorization-server", self._describe),
                Route("/register", self._register, methods=["POST"]),
                Route("/authorize", self._authorize),
                Route("/token", self._token, methods=["POST"]),
            ]
        )

    def end_tokens(self) -> None:
        """All of the hour is over: for the server, not for the clients' clocks."""
        self._access = {}

    def revoke(self) -> None:
        self.end_tokens()
        self._refresh = {}

    def _describe(self, request: Request) -> Response:
        return JSONResponse(
            {
                "issuer": self.issuer_in_metadata or self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                **({"registration_endpoint": f"{self.url}/register"} if self.registers else {}),
                "response_types_supported": ["code"],
                "grant_types_supported": [
                    "authorization_code",
                    "refresh_token",
                    "client_credentials",
                ],
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": True,
            }
        )

    async def _register(self, request: Request) -> Response:
        if not self.registers:
            return JSONResponse({"error": "access_denied"}, 403)
        asked = await request.json()
        id = f"client-{secrets.token_hex(4)}"
        self._clients[id] = {"redirect_uris": asked["redirect_uris"]}
        return JSONResponse({**asked, "client_id": id, "token_endpoint_auth_method": "none"}, 201)

    def _authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        client = self._clients[asked["client_id"]]
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        assert asked["redirect_uri"] in (client["redirect_uris"] or [asked["redirect_uri"]])
        assert asked["resource"] == self.mcp, asked
        assert set(asked["scope"].split()) >= set(self.scopes.split()), asked
        back = {"state": asked["state"], "iss": self.issuer_in_return or self.url}
        if self.denies:
            back |= {"error": "access_denied", "error_description": "Ann said no"}
        else:
            back["code"] = secrets.token_hex(8)
            self._codes[back["code"]] = asked
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(back)}", 302)

    async def _token(self, request: Request) -> Response:
        asked = {
            name: values[-1] for name, values in parse_qs((await request.body()).decode()).items()
        }
        if self.failing:
            self.failing -= 1
            return JSONResponse({"error": "temporarily_unavailable"}, 503)
        if asked.get("resource") != self.mcp:
            return self._refuse("invalid_target")
        grant = getattr(self, f"_by_{asked['grant_type']}")(request, asked)
        if isinstance(grant, str):
            return self._refuse(grant)
        self.grants.append(asked["grant_type"])
        return JSONResponse(
            {**grant, "token_type": "bearer", "expires_in": self.seconds, "scope": self.scopes}
        )

    def _by_authorization_code(
        self, request: Request, asked: dict[str, str]
    ) -> dict[str, str] | str:
        begun = self._codes.pop(asked["code"], None)
        verifier = hashlib.sha256(asked["code_verifier"].encode()).digest()
        if (
            begun is None
            or base64.urlsafe_b64encode(verifier).decode().rstrip("=") != begun["code_challenge"]
        ):
            return "invalid_grant"
        if (asked["client_id"], asked["redirect_uri"]) != (
            begun["client_id"],
            begun["redirect_uri"],
        ):
            return "invalid_grant"
        return self._grant(asked["client_id"], secrets.token_hex(4))

    def _by_refresh_token(self, request: Request, asked: dict[str, str]) -> dict[str, str] | str:
        client, family = self._refresh.pop(asked["refresh_token"], ("", ""))
        if asked["refresh_token"] in self._used:  # Somebody has a copy: nobody goes on.
            self.revoke()
            return "invalid_grant"
        self._used.add(asked["refresh_token"])
        return self._grant(client, family) if client == asked["client_id"] else "invalid_grant"

    def _by_client_credentials(
        self, request: Request, asked: dict[str, str]
    ) -> dict[str, str] | str:
        scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
        id, _, secret = base64.b64decode(credentials).decode().partition(":")
        known = self._clients.get(unquote(id), {}).get("client_secret")
        if scheme != "Basic" or known is None or known != unquote(secret):
            return "invalid_client"
        return {"access_token": self._new_token()}

    def _grant(self, client: str, family: str) -> dict[str, str]:
        if not self.gives_refresh:
            return {"access_token": self._new_token()}
        refresh = f"refresh-{secrets.token_hex(16)}"
        self._refresh[refresh] = (client, family)
        return {"access_token": self._new_token(), "refresh_token": refresh}

    def _new_token(self) -> str:
        token = f"access-{secrets.token_hex(16)}"
        self._access[token] = time.time() + self.seconds
        return token

    def _refuse(self, error: str) -> Response:
        self.refused.append(error)
        return JSONResponse({"error": error}, 401 if error == "invalid_client" else 400)

    def protect(self, app: Any) -> Any:
        """The MCP server's application, which wants a token."""

        async def protected(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                return await app(scope, receive, send)
            request, path = Request(scope), "/.well-known/oauth-protected-resource"
            if request.url.path.startswith(path):
                named = {"resource": self.mcp, "authorization_servers": [self.metadata or self.url]}
                return await JSONResponse({**named, "scopes_supported": self.scopes.split()})(
                    scope, receive, send
                )
            token = request.headers.get("authorization", "").removeprefix("Bearer ")
            self.sent.append(token)
            if self._access.get(token, 0) < time.time():
                said = f'Bearer resource_metadata="{self.server}{path}/mcp"'
                body = json.dumps({"error": "invalid_token"})
                return await Response(body, 401, {"www-authenticate": said})(scope, receive, send)
            return await app(scope, receive, send)

        return protected


@contextmanager
def authority(**fields: Any) -> Iterator[Authority]:
    """Serve both."""
    both = Authority(**fields)
    with (
        serving(both.app) as both.url,
        serving(both.protect(make_server().streamable_http_app())) as both.server,
    ):
        yield both
