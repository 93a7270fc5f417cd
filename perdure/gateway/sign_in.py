"""Signs people in at an OpenID Connect issuer: authorization code with PKCE (RFC 7636)."""

from __future__ import annotations

import asyncio
import json

import httpx2
from pydantic import Field

from ..json_types import JsonView
from .gateway import Gateway
from .identity import ISSUER_SECONDS, OpenId, logger
from .operations import HttpCall, Nothing
from .own_types import CamelCase
from .problems import HttpProblem
from .protected_resource import issuers_of

MAX_CODE_CHARS = 8192


class OpenIdClient(CamelCase):
    """The parts of the address at the issuer where people sign in."""

    issuer: str
    authorization_endpoint: str
    client_id: str
    scope: str


class SignInView(CamelCase):
    """How people sign in; `openId` is null without `--oidc-client`."""

    open_id: OpenIdClient | None


class AuthorizationCode(CamelCase):
    """The issuer's code, with the verifier and the address of the request for it."""

    code: str = Field(max_length=MAX_CODE_CHARS)
    code_verifier: str = Field(min_length=43, max_length=128)
    redirect_uri: str = Field(max_length=MAX_CODE_CHARS)


class SignedIn(CamelCase):
    """A bearer token that this gateway accepts."""

    token: str


async def show_sign_in(call: HttpCall) -> SignInView:
    """How people sign in to this gateway."""
    known = _issuer_of(call.gateway)
    if known is None:
        return SignInView(open_id=None)
    settings, document = known.settings, await _described(known)
    return SignInView(
        open_id=OpenIdClient(
            issuer=settings.issuer,
            authorization_endpoint=document["authorization_endpoint"],
            client_id=settings.client,
            scope=settings.scope,
        )
    )


async def sign_in(call: HttpCall[Nothing, AuthorizationCode]) -> SignedIn:
    """Exchange an authorization code for a token: the access token, else the id token.

    Raises `HttpProblem` for a code that the issuer refuses, and for tokens that are not meant for
    this gateway.
    """
    known = _issuer_of(call.gateway)
    if known is None:
        raise HttpProblem(404, "no_sign_in", "this gateway has no --oidc-client: sign in by token")
    granted = await _granted(known, call.body)
    refused = HttpProblem(403, "forbidden", "the issuer has given no token that this gateway takes")
    for name in ("access_token", "id_token"):
        token = granted.get(name)
        try:
            if isinstance(token, str) and await known.identify(
                {"authorization": f"Bearer {token}"}
            ):
                return SignedIn(token=token)
        except HttpProblem as problem:
            refused = problem
    raise refused


def _issuer_of(gateway: Gateway) -> OpenId | None:
    return next((each for each in issuers_of(gateway) if each.settings.client), None)


async def _described(known: OpenId) -> JsonView:
    try:
        document = await known.described()
        return {name: str(document[name]) for name in ("authorization_endpoint", "token_endpoint")}
    except Exception as error:  # The issuer's answer may raise anything.
        raise _unavailable(known, error) from error


async def _granted(known: OpenId, asked: AuthorizationCode) -> JsonView:
    """Return the issuer's answer. Raises `HttpProblem`."""
    form = {
        "grant_type": "authorization_code",
        "client_id": known.settings.client,
        **asked.model_dump(),
    }
    address = (await _described(known))["token_endpoint"]
    try:
        async with asyncio.timeout(ISSUER_SECONDS), httpx2.AsyncClient() as http:
            answer = await http.post(address, data=form)
            granted = json.loads(answer.text)
        if not isinstance(granted, dict):
            raise ValueError(f"expected an object, not {answer.text[:80]!r}")
    except Exception as error:
        raise _unavailable(known, error) from error
    if answer.is_error:
        text = f"{known.settings.issuer} refuses to sign you in: {granted.get('error', '')!s:.100}"
        raise HttpProblem(403, "forbidden", f"{text}. Sign in again")
    return granted


def _unavailable(known: OpenId, error: Exception) -> HttpProblem:
    logger.error("%s can't sign anybody in: %s", known.settings.issuer, repr(error)[:500])
    return HttpProblem(
        503,
        "issuer_away",
        f"{known.settings.issuer} does not answer as expected: try again later",
        headers={"Retry-After": "10"},
    )
