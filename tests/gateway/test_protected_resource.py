"""Programs that find the issuer of a gateway's tokens by themselves (RFC 9728)."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from mcp import Client
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.auth.utils import (
    build_protected_resource_metadata_discovery_urls,
    extract_resource_metadata_from_www_auth,
)
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import ProtectedResourceMetadata
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from perdure.gateway.identity import OpenId, OpenIdSettings, TokenFile
from perdure.json_types import JsonObject
from perdure.payloads.codec_server.app import serve

from ..support.agents import Scripted, scripted_agent
from ..support.dev_server import free_port
from .conftest import Serve

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
ISSUER = "https://issuer.example"


class Kept:
    """Keeps tokens in memory."""

    tokens: Any = None
    client: Any = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client: Any) -> None:
        self.client = client


async def keys(request: Request) -> Response:
    """The issuer's public keys."""
    public = jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key(), as_dict=True)
    return JSONResponse({"keys": [{**public, "kid": "k1"}]})


def signed(claims: JsonObject) -> str:
    """A token of the issuer, valid for a minute."""
    claims = {"exp": time.time() + 60, **claims}
    return jwt.encode(claims, KEY, algorithm="RS256", headers={"kid": "k1"})


@asynccontextmanager
async def issuing() -> AsyncIterator[str]:
    """An issuer that gives each program a token for the resource that it names."""

    async def describe(request: Request) -> Response:
        own = str(request.base_url).rstrip("/")
        known = {"issuer": own, "jwks_uri": f"{own}/keys", "token_endpoint": f"{own}/token"}
        supported = {
            "grant_types_supported": ["client_credentials"],
            "response_types_supported": ["code"],
        }
        return JSONResponse({**known, **supported, "authorization_endpoint": f"{own}/authorize"})

    async def token(request: Request) -> Response:
        [resource] = parse_qs((await request.body()).decode())["resource"]
        own = str(request.base_url).rstrip("/")
        token = signed({"iss": own, "aud": resource, "sub": "robot"})
        return JSONResponse({"access_token": token, "token_type": "Bearer", "expires_in": 60})

    described = ("openid-configuration", "oauth-authorization-server")
    routes = [Route(f"/.well-known/{name}", describe) for name in described]
    routes += [Route("/keys", keys), Route("/token", token, methods=["POST"])]
    async with serve(Starlette(routes=routes), "127.0.0.1", 0) as url:
        yield url.rstrip("/")


@pytest.mark.parametrize("audience", ["http://127.0.0.1:{port}", "http://127.0.0.1:{port}/mcp/"])
async def test_an_mcp_client_finds_the_issuer_and_is_let_in(
    scripted: Scripted, serve_agents: Serve, audience: str
) -> None:
    agent, port = scripted_agent(scripted([])), free_port()
    named = audience.format(port=port)
    async with (
        issuing() as issuer,
        serve_agents(agent, known=[OpenId(OpenIdSettings(issuer, named))], port=port),
    ):
        url = f"http://127.0.0.1:{port}/mcp/"
        asking = ClientCredentialsOAuthProvider(url, Kept(), "robot", "secret", issuer=issuer)
        async with (
            httpx2.AsyncClient(auth=asking, timeout=60) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            assert [each.name for each in (await client.list_tools()).tools] == ["tested", "result"]
        claims = jwt.decode(
            (await asking.context.storage.get_tokens()).access_token,
            options={"verify_signature": False},
        )
    assert claims["aud"] == named


@pytest.mark.parametrize(
    "path", ["mcp/", "perdure/agents", "v1/models", "kaos/tested/memory/events"]
)
async def test_who_is_not_let_in_hears_where_tokens_come_from(
    scripted: Scripted, serve_agents: Serve, path: str
) -> None:
    known = [OpenId(OpenIdSettings(ISSUER, "perdure"))]
    agent = scripted_agent(scripted([]))
    async with serve_agents(agent, known=known) as served, httpx2.AsyncClient(timeout=60) as http:
        url = f"{served.url}/{path}"
        refused = await http.request("POST" if path == "mcp/" else "GET", url)
        assert refused.status_code == 401
        named = extract_resource_metadata_from_www_auth(refused)
        assert named == f"{served.url}/.well-known/oauth-protected-resource/{path}"
        for place in build_protected_resource_metadata_discovery_urls(named, url):
            found = ProtectedResourceMetadata.model_validate((await http.get(place)).json())
            assert url.startswith(str(found.resource).rstrip("/"))
            assert [str(each).rstrip("/") for each in found.authorization_servers] == [ISSUER]
        assert (await http.get(named)).json()["resource"] == url
        wrong = await http.get(
            f"{served.url}/perdure/agents", headers={"Authorization": "Bearer a.b.c"}
        )
        assert (
            wrong.status_code,
            'error="invalid_token"' in wrong.headers["www-authenticate"],
        ) == (401, True)


async def test_without_an_issuer_there_is_no_document(
    scripted: Scripted, serve_agents: Serve, tokens: TokenFile
) -> None:
    agent = scripted_agent(scripted([]))
    async with (
        serve_agents(agent, known=[tokens]) as served,
        httpx2.AsyncClient(timeout=60) as http,
    ):
        assert (
            await http.get(f"{served.url}/.well-known/oauth-protected-resource")
        ).status_code == 404
        refused = await http.get(f"{served.url}/perdure/agents")
        assert refused.headers["www-authenticate"] == "Bearer"
