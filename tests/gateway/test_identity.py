"""Who asks, and what they reach."""

from __future__ import annotations

import asyncio
import base64
import json
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from perdure.errors import ConfigurationError
from perdure.gateway.identity import (
    Function,
    Identity,
    OpenId,
    OpenIdSettings,
    TokenFile,
    identity_of,
)
from perdure.gateway.problems import HttpProblem
from perdure.payloads.codec_server.app import serve


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_a_file_of_tokens_is_read_when_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tokens.yaml"
    monkeypatch.setenv("ANNS_TOKEN", "a secret of sixteen characters")
    file.write_text(
        "tokens:\n  - {token: '${env:ANNS_TOKEN}', name: ann, tenant: acme, roles: [r]}\n"
    )
    known = [TokenFile(file)]
    assert await identity_of(bearer("a secret of sixteen characters"), known) == Identity(
        "ann", "acme", frozenset("r")
    )
    with pytest.raises(HttpProblem, match="Bearer"):
        await identity_of(bearer("another"), known)
    file.write_text("tokens: no list of tokens")
    assert (await identity_of(bearer("a secret of sixteen characters"), known)).name == "ann", (
        "what was right counts"
    )
    file.write_text("tokens:\n  - {token: another secret of ann, name: ann}\n")
    with pytest.raises(HttpProblem):
        await identity_of(bearer("a secret of sixteen characters"), known)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("tokens: []", "at least 1"),
        ("tokens:\n  - {token: short, name: ann}", "has 5 characters"),
        ("tokens:\n  - {name: ann}", "either `token` or `sha256`"),
        ("tokens:\n  - {token: '${env:NOT_SET_HERE}', name: ann}", "the variable is not set"),
        ("tokens: {", "can't be used"),
        ("", "can't be used: it is empty"),
        ("- {token: token-of-ann-at-acme, name: ann}", "it has no key `tokens`"),
    ],
)
def test_a_file_that_is_wrong_is_said_to_be(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "tokens.yaml").write_text(text)
    with pytest.raises(ConfigurationError, match=why):
        TokenFile(tmp_path / "tokens.yaml")


async def test_a_function_of_ones_own() -> None:
    def who(headers: object) -> object:
        name = headers.get("x-user")  # type: ignore[attr-defined]
        return {"name": name, "tenant": "acme"} if name else None

    def broken(headers: object) -> None:
        raise RuntimeError("no database")

    assert await identity_of({"X-User": "ann"}, [Function(broken), Function(who)]) == Identity(
        "ann", "acme"
    )  # type: ignore[arg-type]
    with pytest.raises(HttpProblem):
        await identity_of({}, [Function(broken), Function(who)])  # type: ignore[arg-type]


async def test_tokens_of_an_issuer(tmp_path: Path) -> None:
    key, stranger = (
        rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2)
    )
    public = jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True) | {"kid": "k1"}
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [public]}))
    settings = OpenIdSettings(
        "https://issuer.example",
        "perdure",
        str(tmp_path / "keys.json"),
        "email",
        "org.id",
        "org.roles",
    )
    claims = {
        "iss": "https://issuer.example",
        "aud": "perdure",
        "exp": time.time() + 60,
        "email": "ann@acme",
        "org": {"id": "acme", "roles": ["reviewer"]},
    }
    known = [OpenId(settings)]

    def token(
        signed_by: rsa.RSAPrivateKey = key, kid: str = "k1", **other: object
    ) -> dict[str, str]:
        return bearer(
            jwt.encode({**claims, **other}, signed_by, algorithm="RS256", headers={"kid": kid})
        )

    assert await identity_of(token(), known) == Identity(
        "ann@acme", "acme", frozenset({"reviewer"})
    )
    unsigned = bearer(jwt.encode(claims, None, algorithm="none", headers={"kid": "k1"}))  # type: ignore[arg-type]
    symmetric = bearer(jwt.encode(claims, "k" * 64, algorithm="HS256", headers={"kid": "k1"}))
    wrong = [
        token(stranger),
        token(kid="k2"),
        token(exp=time.time() - 60),
        token(aud="other"),
        token(iss="other"),
    ]
    for each in [*wrong, unsigned, symmetric]:
        with pytest.raises(HttpProblem) as refused:
            await identity_of(each, known)
        assert refused.value.status == 401
    with pytest.raises(HttpProblem, match="names no tenant"):
        await identity_of(token(org={}), known)


@asynccontextmanager
async def issuing_keys(document: str) -> AsyncIterator[tuple[str, asyncio.Event, list[str]]]:
    """An issuer's keys: where they are, what lets it answer, and each request."""
    answers, asked = asyncio.Event(), list[str]()

    async def keys(request: Request) -> Response:
        asked.append(request.url.path)
        await answers.wait()
        return Response(document)

    async with serve(Starlette(routes=[Route("/keys", keys)]), "127.0.0.1", 0) as url:
        yield f"{url}/keys", answers, asked
        answers.set()


async def test_an_issuer_that_hangs_delays_nobody_whose_key_is_known() -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True) | {"kid": "k1"}

    def token(kid: str = "k1", **other: object) -> dict[str, str]:
        claims = {"iss": "i", "aud": "perdure", "exp": time.time() + 60, "sub": "ann", **other}
        return bearer(jwt.encode(claims, key, algorithm="RS256", headers={"kid": kid}))

    async def status(headers: dict[str, str]) -> int:
        try:
            await identity_of(headers, known)
        except HttpProblem as problem:
            return problem.status
        return 200

    async with issuing_keys(json.dumps({"keys": [public]})) as (place, answers, asked):
        known = [OpenId(OpenIdSettings("i", "perdure", place, keys_seconds=0.0))]
        first = [asyncio.create_task(status(token())) for _ in range(20)]
        await asyncio.sleep(0.1)
        answers.set()
        assert (await asyncio.gather(*first), len(asked)) == ([200] * 20, 1)
        answers.clear()
        assert [await status(token()) for _ in range(5)] == [200] * 5
        strangers = [
            asyncio.create_task(status(token(kid=f"k{number}"))) for number in range(2, 22)
        ]
        await asyncio.wait(strangers, timeout=0.1)
        async with asyncio.timeout(1):
            assert [await status(token()) for _ in range(5)] == [200] * 5
        answers.set()
        assert (await asyncio.gather(*strangers), len(asked)) == ([401] * 20, 2)
        assert (await status(token(kid="k30")), len(asked)) == (401, 2), (
            "not asked for again at once"
        )
        started = time.monotonic()
        assert [await status(token(kid=f"k{number}")) for number in range(31, 231)] == [401] * 200
        assert time.monotonic() - started < 5, "no stranger waits for the issuer again"
        assert [await status(token(sub=each)) for each in (5, "a\0b", "a" * 201)] == [401, 403, 403]
    for _ in range(
        3
    ):  # The issuer is down, and its keys are due to be asked for with each request.
        known[0]._keys._asked_at = -math.inf
        assert await status(token()) == 200
    nested = base64.urlsafe_b64encode(b"[" * 30_000).decode()
    assert await status(bearer(f"{nested}.e30.x")) == 401
    for roles, tenant in (
        (5, "acme"),
        ([1], "acme"),
        ({"a": 1}, "acme"),
        ("a", "ac\0me"),
        ("a", 7),
    ):
        known[0].settings = OpenIdSettings(
            "i", "perdure", place, tenant_claim="tid", roles_claim="roles"
        )
        assert await status(token(roles=roles, tid=tenant)) == 403, (roles, tenant)


async def test_an_issuer_that_can_not_be_asked(tmp_path: Path) -> None:
    known = [OpenId(OpenIdSettings("i", "perdure", str(tmp_path / "missing.json")))]
    with pytest.raises(HttpProblem) as refused:
        await identity_of(bearer(jwt.encode({"sub": "ann"}, "k" * 64, headers={"kid": "k"})), known)
    assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "10"})
