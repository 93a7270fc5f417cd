"""People sign in to the page at an OpenID Connect issuer (authorization code with PKCE)."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlencode

import httpx2
import jwt
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from perdure.gateway.identity import OpenId, OpenIdSettings
from perdure.json_types import JsonObject
from perdure.payloads.codec_server.app import serve

from ..support.agents import Scripted, scripted_agent
from .conftest import Serve
from .test_protected_resource import keys, signed

if TYPE_CHECKING:
    from playwright.async_api import Page

AUDIENCE, CLIENT = "https://agents.example", "perdure-page"


@dataclass
class Issuer:
    """A strict issuer: its codes count once, for the browser that has the verifier."""

    url: str = ""
    audience: str = AUDIENCE
    error: str = ""
    asked: list[dict[str, str]] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def describe(self, request: Request) -> Response:
        names = {"authorization_endpoint": "authorize", "token_endpoint": "token"}
        document = {name: f"{self.url}/{path}" for name, path in names.items()}
        return JSONResponse({"issuer": self.url, "jwks_uri": f"{self.url}/keys", **document})

    def authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        self.asked.append(asked)
        code = f"code-{len(self.asked)}"
        self.codes[code] = asked
        answer = {"error": "access_denied", "error_description": self.error}
        answer = answer if self.error else {"code": code}
        back = urlencode({**answer, "state": asked["state"]})
        return RedirectResponse(f"{asked['redirect_uri']}?{back}", 302)

    async def token(self, request: Request) -> Response:
        form = {
            name: values[0] for name, values in parse_qs((await request.body()).decode()).items()
        }
        begun = self.codes.pop(form["code"], {})
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if (challenge, form["redirect_uri"], form["client_id"]) != (
            begun.get("code_challenge"),
            begun.get("redirect_uri"),
            CLIENT,
        ):
            return JSONResponse({"error": "invalid_grant"}, 400)
        token = signed({"iss": self.url, "aud": self.audience, "sub": "ann"})
        return JSONResponse({"access_token": "opaque", "id_token": token, "token_type": "Bearer"})

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[OpenId]:
        routes = [
            Route("/.well-known/openid-configuration", self.describe),
            Route("/keys", keys),
            Route("/authorize", self.authorize),
            Route("/token", self.token, methods=["POST"]),
        ]
        async with serve(Starlette(routes=routes), "127.0.0.1", 0) as url:
            self.url = url.rstrip("/")
            yield OpenId(OpenIdSettings(self.url, AUDIENCE, client=CLIENT, scope="openid roles"))


async def test_people_sign_in_at_the_issuer_and_return_to_where_they_were(
    scripted: Scripted, serve_agents: Serve, page: Page
) -> None:
    issuer = Issuer()
    async with (
        issuer.serving() as known,
        serve_agents(scripted_agent(scripted([])), known=[known]) as served,
    ):
        await page.goto(f"{served.url}/#/start")
        await page.get_by_role("button", name="Sign in at 127.0.0.1").click()
        await page.get_by_role("button", name="Sign out").wait_for()
        assert page.url == f"{served.url}/#/start"
        [asked] = issuer.asked
        assert (asked["scope"], asked["code_challenge_method"]) == ("openid roles", "S256")
        token = await page.evaluate("sessionStorage.getItem('perdure-token')")
        assert jwt.decode(token, options={"verify_signature": False})["sub"] == "ann"
        assert await page.evaluate("[localStorage.length, document.cookie]") == [0, ""]

        strange = f"{served.url}/?code=code-1&state=somebody-elses#/start"
        await page.goto(strange)
        await page.get_by_role("button", name="Sign out").click()
        await page.get_by_role("button", name="Sign in at 127.0.0.1").wait_for()
        await page.goto(strange)
        await page.get_by_text("was not begun in this tab").wait_for()
        assert "code" not in page.url

        await page.get_by_role("button", name="Sign in at 127.0.0.1").wait_for()
        issuer.error = "Ann said <b>no</b>"
        await page.get_by_role("button", name="Sign in at 127.0.0.1").click()
        await page.get_by_text("Not signed in: Ann said <b>no</b>").wait_for()
        await page.goto("about:blank")


@pytest.mark.parametrize(
    ("audience", "code", "status", "text"),
    [
        ("https://others.example", "code-1", 401, "Audience"),
        (AUDIENCE, "code-9", 403, "invalid_grant"),
    ],
)
async def test_a_code_that_is_not_ones_own_and_tokens_of_others_are_refused(
    scripted: Scripted,
    serve_agents: Serve,
    audience: str,
    code: str,
    status: int,
    text: str,
) -> None:
    issuer, verifier = Issuer(audience=audience), "v" * 43
    digest = hashlib.sha256(verifier.encode()).digest()
    begun = {
        "redirect_uri": "https://agents.example/",
        "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
    }
    issuer.codes["code-1"] = begun
    body: JsonObject = {
        "code": code,
        "codeVerifier": verifier,
        "redirectUri": begun["redirect_uri"],
    }
    async with (
        issuer.serving() as known,
        serve_agents(scripted_agent(scripted([])), known=[known]) as served,
        httpx2.AsyncClient(base_url=f"{served.url}/perdure") as http,
    ):
        known_as = (await http.get("/sign-in")).json()["openId"]
        assert (known_as["clientId"], known_as["issuer"]) == (CLIENT, issuer.url)
        answer = await http.post("/sign-in", json=body)
        assert (answer.status_code, text in answer.text) == (status, True), answer.text


async def test_without_a_client_people_sign_in_by_token(
    scripted: Scripted, serve_agents: Serve
) -> None:
    known = OpenId(OpenIdSettings("http://127.0.0.1:9", AUDIENCE))
    away = OpenId(OpenIdSettings("http://127.0.0.1:9", AUDIENCE, client=CLIENT))
    for each, status, shown in ((known, 404, {"openId": None}), (away, 503, None)):
        async with (
            serve_agents(scripted_agent(scripted([])), known=[each]) as served,
            httpx2.AsyncClient(base_url=f"{served.url}/perdure") as http,
        ):
            body = {"code": "c", "codeVerifier": "v" * 43, "redirectUri": "https://a.example/"}
            assert (await http.post("/sign-in", json=body)).status_code == status
            answer = await http.get("/sign-in")
            assert answer.json() == shown if shown else answer.status_code == status
