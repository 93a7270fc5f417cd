"""TokenStore for MCP servers: of the client's own, and of a person who has connected; ended,
refused, and shared.
"""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.shared.auth import AuthorizationCodeResult

from perdure.errors import ConfigurationError
from perdure.json_types import JsonObject
from perdure.redaction import redact
from perdure.tools import register_mcp_server
from perdure.tools.kind import ToolOfferError
from perdure.tools.mcp.declaration import OAuth
from perdure.tools.mcp.granting import grant
from perdure.tools.mcp.kind import McpKind
from perdure.tools.mcp.oauth import OAuthProblem, TokenStore

from ...support.mcp_stage import Tools, on_http
from ...support.oauth_server import CLIENT, SECRET, Authority, authority


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Authority]:
    monkeypatch.setenv("PERDURE_HOME", str(tmp_path))
    with authority() as servers:
        yield servers


def own(both: Authority, **connection: Any) -> JsonObject:
    fields = {
        "kind": "oauth",
        "clientId": CLIENT,
        "clientSecret": SECRET,
        "issuer": both.url,
        **connection,
    }
    return on_http(
        both.mcp, connection={key: value for key, value in fields.items() if value is not None}
    )


def personal(both: Authority) -> JsonObject:
    return on_http(both.mcp, connection={"kind": "oauth"})


async def connect(both: Authority, oauth: OAuth | None = None) -> TokenStore:
    """As a person does whose browser follows each redirect."""
    oauth = oauth or OAuth(both.mcp, is_personal=True)
    seen: list[str] = []

    async def show(url: str) -> None:
        seen.append(url)

    async def receive() -> AuthorizationCodeResult:
        async with httpx2.AsyncClient() as browser:
            back = httpx2.URL((await browser.get(seen[-1])).headers["location"]).params
        return AuthorizationCodeResult(
            code=back.get("code", ""), state=back.get("state"), iss=back.get("iss")
        )

    await grant(oauth, "http://127.0.0.1:1/callback", show, receive)
    tokens = TokenStore(oauth)
    tokens.read()
    return tokens


async def says(tools: Tools, text: str) -> str:
    return (await tools.call("echo", text=text)).text


async def test_a_client_gets_tokens_of_its_own(both: Authority) -> None:
    """By discovery; again when the server takes the hour for over; calls at once share a token."""
    tools = await Tools(own(both)).ask()
    assert await says(tools, "one") == "one"
    assert both.grants == ["client_credentials"]
    both.end_tokens()
    assert await asyncio.gather(*(says(tools, str(n)) for n in range(20))) == [
        str(n) for n in range(20)
    ]
    assert both.grants == ["client_credentials"] * 2
    await tools.kind.close()


async def test_a_token_url_in_the_place_of_the_issuer(both: Authority) -> None:
    tools = await Tools(own(both, issuer=None, tokenUrl=f"{both.url}/token", scopes=["read"])).ask()
    assert await says(tools, "one") == "one"
    await tools.kind.close()


async def test_the_secret_goes_to_no_other_authorization_server(both: Authority) -> None:
    """Whoever owns the MCP server can't send the client elsewhere: nothing is asked there."""
    with authority() as thief:
        both.metadata = thief.url
        with pytest.raises(
            ToolOfferError, match="gave no token: No authorization server metadata discovered for"
        ):
            await Tools(own(both)).ask()
        tools = await Tools(own(both, issuer=None, tokenUrl=f"{both.url}/token")).ask()
        await tools.kind.close()
        assert (thief.grants, thief.refused) == ([], [])


async def test_a_wrong_secret(both: Authority) -> None:
    with pytest.raises(
        ToolOfferError, match=r"gave no token: Token exchange failed \(401\)"
    ) as caught:
        await Tools(own(both, clientSecret="another-secret-of-the-tests")).ask()
    assert "another-secret" not in str(caught.value)


async def test_what_a_person_granted_is_renewed_for_good(both: Authority) -> None:
    """Refresh tokens rotate: each works once. The file is its owner's alone."""
    tokens = await connect(both)
    assert stat.S_IMODE(tokens.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(tokens.path.parent.stat().st_mode) == 0o700
    tools = await Tools(personal(both)).ask()
    assert await says(tools, "one") == "one"
    assert both.grants == ["authorization_code"]
    for hour in range(5):
        both.end_tokens()
        assert await says(tools, str(hour)) == str(hour)
    assert both.grants == ["authorization_code", *["refresh_token"] * 5]
    await tools.kind.close()


async def test_a_token_is_renewed_before_its_end(both: Authority) -> None:
    both.seconds = 10
    await connect(both)
    both.seconds, before = 3600, len(both.sent)
    tools = await Tools(personal(both)).ask()
    assert both.grants == ["authorization_code", "refresh_token"]
    assert len(set(both.sent[before:])) == 1, "no request went out with the old one"
    await tools.kind.close()


async def test_workers_that_renew_at_once_lose_no_token(both: Authority) -> None:
    """Each kind has connections and files of its own, as another process would. A used token would
    revoke them all.
    """
    await connect(both)
    workers = [await Tools(personal(both), McpKind()).ask() for _ in range(6)]
    for _ in range(5):
        both.end_tokens()
        assert (
            await asyncio.gather(*(says(each, "x") for each in workers for _ in range(3)))
            == ["x"] * 18
        )
    assert both.refused == []
    assert both.grants == ["authorization_code", *["refresh_token"] * 5]
    for each in workers:
        await each.kind.close()


async def test_what_is_said_when_nobody_has_connected(both: Authority) -> None:
    with pytest.raises(
        ToolOfferError, match=rf"it is not connected: type perdure connect {both.mcp} where"
    ):
        await Tools(personal(both)).ask()


async def test_a_revoked_grant(both: Authority) -> None:
    await connect(both)
    tools = await Tools(personal(both)).ask()
    both.revoke()
    result = await tools.call("echo", text="x")
    assert "does not renew the token (HTTP 400" in result.text
    assert f"type perdure connect {both.mcp}" in result.text
    assert "not executed" in result.text
    await connect(both)
    assert await says(tools, "again") == "again"
    await tools.kind.close()


async def test_a_grant_that_nothing_renews(both: Authority) -> None:
    both.gives_refresh = False
    await connect(both)
    tools = await Tools(personal(both)).ask()
    both.end_tokens()
    assert (
        "gave no refresh token: type perdure connect" in (await tools.call("echo", text="x")).text
    )
    await tools.kind.close()


async def test_an_authorization_server_that_is_away_for_a_moment(both: Authority) -> None:
    """The grant stays: the next call renews it."""
    await connect(both)
    tools = await Tools(personal(both)).ask()
    both.end_tokens()
    both.failing = 100
    assert "answered HTTP 503" in (await tools.call("echo", text="x")).text
    both.failing = 0
    assert await says(tools, "y") == "y"
    await tools.kind.close()


async def test_a_cancelled_call_loses_no_token(both: Authority) -> None:
    await connect(both)
    tools = await Tools(personal(both)).ask()
    for _ in range(20):
        both.end_tokens()
        call = asyncio.create_task(tools.call("echo", text="x"))
        await asyncio.sleep(0.003)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
    assert await says(tools, "y") == "y"
    assert both.refused == []
    await tools.kind.close()


async def test_a_file_that_is_broken(both: Authority) -> None:
    tokens = await connect(both)
    tokens.path.write_text("{")
    with pytest.raises(ToolOfferError, match="its tokens can't be read"):
        await Tools(personal(both)).ask()


async def test_tokens_are_secrets(both: Authority) -> None:
    tokens = await connect(both)
    said = json.loads(tokens.path.read_text())["tokens"]
    text = redact(f"{said['access_token']} {said['refresh_token']} {tokens!r}")
    assert said["access_token"] not in text
    assert said["refresh_token"] not in text


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("issuer_in_metadata", "mismatch"),
        ("issuer_in_return", "iss"),
        ("metadata", "can't be reached"),
    ],
)
async def test_a_wrong_issuer(field: str, message: str, both: Authority) -> None:
    setattr(both, field, "http://127.0.0.1:9/wrong")
    with pytest.raises(OAuthProblem, match=message):
        await connect(both)
    assert not TokenStore(OAuth(both.mcp, is_personal=True)).path.exists()


async def test_a_server_that_registers_nobody(both: Authority) -> None:
    both.registers = False
    with pytest.raises(
        OAuthProblem,
        match=r"register it there by hand, with the redirect address http://127\.0\.0\.1",
    ):
        await connect(both)
    by_hand = OAuth(both.mcp, CLIENT, SECRET, issuer=both.url, is_personal=True)
    await connect(both, by_hand)
    elsewhere = OAuth(both.mcp, CLIENT, SECRET, issuer="http://127.0.0.1:9", is_personal=True)
    with pytest.raises(OAuthProblem):
        await connect(both, elsewhere)


PROBLEMS = {
    "clientSecret would go wherever": {"clientId": "c", "clientSecret": "${env:X}"},
    "needs clientId and clientSecret": {
        "clientSecret": "${env:X}",
        "issuer": "https://a",
        "authenticationMode": "user",
    },
    "authenticationMode 'system', needs": {"authenticationMode": "system"},
    "authenticationMode is 'me'": {"authenticationMode": "me"},
    "issuer is 'http://a'": {"issuer": "http://a"},
    "leave out apiKey": {"apiKey": "${env:X}"},
}


@pytest.mark.parametrize(("message", "fields"), PROBLEMS.items())
def test_declarations(message: str, fields: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=message):
        register_mcp_server("s", {"kind": "oauth", "endpoint": "https://h/mcp", **fields})
