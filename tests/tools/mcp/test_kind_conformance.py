"""The official conformance suites of MCP, with perdure as the client: what fails is what it does
not offer.
"""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from mcp.shared.auth import AuthorizationCodeResult
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from perdure.json_types import JsonObject
from perdure.messages import Answered
from perdure.tools.context import ToolContext
from perdure.tools.mcp.declaration import OAuth
from perdure.tools.mcp.granting import grant

from ...support.conformance import conformance
from ...support.hosts import serving
from ...support.mcp_stage import Tools, on_http

ASK_HERE = """
const { MCP_CONFORMANCE_SCENARIO: scenario, MCP_CONFORMANCE_CONTEXT: context = "{}" } = process.env;
const body = JSON.stringify({ url: process.argv.at(-1), scenario, context: JSON.parse(context) });
const answer = await fetch(process.argv[2], { method: "POST", body });
console.error(await answer.text());
process.exit(answer.ok ? 0 : 1);
"""
"""The program that the suite starts for each scenario: starting Python and the SDK each time would
take a minute."""
EXPLAINED = {
    "a server of the older protocol can't ask a person": "elicitation-sep1034-client-defaults",
    "tokens are got by a client's secret or a person's grant": (
        "auth/client-credentials-jwt auth/cross-app-access-complete-flow "
        "auth/enterprise-managed-authorization auth/dpop auth/dpop-nonce auth/wif-jwt-bearer"
    ),
    "more scopes are a person's decision: the error names them": (
        "auth/scope-step-up auth/scope-retry-limit"
    ),
    "a server that names another authorization server later is connected anew by a person": (
        "auth/authorization-server-migration"
    ),
    "what the suite's own client does with a schema": "json-schema-2020-12-preservation",
    "a warning": "auth/basic-cimd",
    "its metadata name another issuer than their address (RFC 8414 §3.3)": "auth/2025-03-26-oauth-metadata-backcompat",
    "timed, and too late on a busy machine, which the suite asks for 48 clients at once": "sse-retry request-metadata",
}
"""Why checks of a scenario fail, and may."""
VALUES = {"integer": 5, "number": 5, "boolean": True, "array": [], "object": {}}


async def play(url: str, scenario: str, context: JsonObject) -> None:
    """Use the server as a run does: with a grant, if it wants one; all tools are listed, and each
    is called.
    """
    connection: JsonObject = {}
    if "client_secret" in context and "client-credentials" in scenario:
        client = {"clientId": context["client_id"], "clientSecret": context["client_secret"]}
        connection = {
            "kind": "oauth",
            **client,
            "issuer": context.get("issuer") or await issuer_of(url),
        }
    elif scenario.startswith("auth/"):
        connection = {"kind": "oauth"}
        if "client_id" in context:
            issuer = await issuer_of(url)
            connection |= {
                "clientId": context["client_id"],
                "clientSecret": context["client_secret"],
                "issuer": issuer,
            }
            connection |= {"authenticationMode": "user"}
        await connect(url, connection)
    tools = Tools(on_http(url, connection=connection, options={"discoveryTimeout": 50}))
    calls = context.get("toolCalls")
    try:
        for offering in (await tools.ask()).offered:
            properties = offering.parameters.get("properties", {})
            made = {name: VALUES.get(each.get("type"), "x") for name, each in properties.items()}
            meant = [each["arguments"] for each in calls or () if each["name"] == offering.name]
            for arguments in meant if calls else [made]:
                await call(tools, offering.name, arguments)
    finally:
        await tools.kind.close()


async def call(tools: Tools, name: str, arguments: JsonObject) -> None:
    """As a run does whose person agrees to everything."""
    result = await tools.call(name, **arguments)
    while (needs := result.needs) is not None:
        text = needs.choices[0] if needs.choices else "x"
        result = await tools.call(
            name, ToolContext(answered=Answered(text=text, state=needs.state)), **arguments
        )


async def issuer_of(url: str) -> str:
    """The authorization server that the owner of the client's secret knows."""
    base = httpx2.URL(url)
    async with httpx2.AsyncClient() as http:
        found = await http.get(
            base.copy_with(path=f"/.well-known/oauth-protected-resource{base.path}")
        )
        return str(found.json()["authorization_servers"][0])


async def connect(url: str, connection: JsonObject) -> None:
    """As a person does, whose browser follows each redirect."""
    seen: list[str] = []

    async def show(address: str) -> None:
        seen.append(address)

    async def receive() -> AuthorizationCodeResult:
        async with httpx2.AsyncClient() as browser:
            back = httpx2.URL((await browser.get(seen[-1])).headers["location"]).params
        return AuthorizationCodeResult(
            code=back.get("code", ""), state=back.get("state"), iss=back.get("iss")
        )

    named = {"client_id": "clientId", "client_secret": "clientSecret", "issuer": "issuer"}
    client = {field: connection.get(key, "") for field, key in named.items()}
    await grant(
        OAuth(url, is_personal=True, **client), "http://127.0.0.1:9/callback", show, receive
    )


async def serve(request: Request) -> Response:
    try:
        await play(**await request.json())
    except Exception:
        return PlainTextResponse(traceback.format_exc()[-2000:], 500)
    return PlainTextResponse("ok")


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("PERDURE_HOME", str(tmp_path / "home"))
    (program := tmp_path / "ask.mjs").write_text(ASK_HERE)
    with serving(Starlette(routes=[Route("/", serve, methods=["POST"])])) as here:
        yield f"node {program} {here}/"


async def faults_of(
    suite: str, folder: Path, program: str, *chosen: str
) -> dict[str, dict[str, str]]:
    """The checks that do not hold, by scenario; what was played is printed in numbers."""
    played = await conformance(
        suite, folder, "client", "--timeout", "120000", "--command", program, *chosen
    )
    found = {
        name: {id: why for id, why in checks.items() if why} for name, checks in played.items()
    }
    checks, faults = (sum(map(len, each.values())) for each in (played, found))
    print(f"{suite}: {len(played)} scenarios, {checks} checks, {faults} do not hold")
    return {name: each for name, each in found.items() if each}


async def test_what_perdure_does_as_a_client(program: str, tmp_path: Path) -> None:
    """A question in the middle of a call, arguments in headers, and a grant by discovery."""
    chosen = ("sep-2322-client-request-state", "http-custom-headers", "auth/metadata-default")
    played = [
        faults_of("conformance-next", tmp_path / each, program, "--scenario", each)
        for each in chosen
    ]
    assert await asyncio.gather(*played) == [{}] * 3


@pytest.mark.trial
@pytest.mark.timeout(600)
@pytest.mark.parametrize("suite", ["@modelcontextprotocol/conformance", "conformance-next"])
async def test_what_fails_of_the_suite_is_what_perdure_does_not_offer(
    suite: str, program: str, tmp_path: Path
) -> None:
    faults = await faults_of(suite, tmp_path / "out", program, "--suite", "all")
    print(json.dumps(faults, indent=1))
    assert set(faults) <= {name for names in EXPLAINED.values() for name in names.split()}
