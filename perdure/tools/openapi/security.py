"""Allowed servers, their keys, and access tokens by client credentials (RFC 6749 §4.4)."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote_plus, urlencode, urljoin, urlsplit

from ...declared_tools import Connection
from ...json_types import JsonObject
from ...redaction import REDACTED, redacted_excerpt
from ..http import Content, Http, HttpAnswer, HttpFailure, HttpRequest, origin_of
from .document import SpecificationError
from .operation import Operation, Scheme

Pair = tuple[str, str]
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True)
class RequestCredentials:
    """The additions to a request, none of which may be shown or recorded."""

    headers: list[Pair] = field(default_factory=list, repr=False)
    query: list[Pair] = field(default_factory=list, repr=False)
    secrets: list[str] = field(default_factory=list, repr=False)
    """Every form in which a server may send one of them back."""


@dataclass(frozen=True)
class Keys:
    """The keys of a connection."""

    key: str | None = field(default=None, repr=False)
    """For any scheme."""
    by_scheme: Mapping[str, str] = field(default_factory=dict, repr=False)
    """For the schemes of these names in the specification."""
    user: str | None = None
    """For `basic`, unless the key is `user:password` itself."""

    @classmethod
    def of(cls, connection: Connection | None, token: str | None = None) -> Keys:
        """Return those of a connection; `token` is the one obtained with its client id and
        secret.
        """
        if connection is None or connection.kind == "anonymous":
            return cls()
        more: JsonObject = connection.model_extra or {}
        named, user = more.get("keys"), more.get("username")
        by_scheme = (
            {str(name): str(value) for name, value in named.items()}
            if isinstance(named, dict)
            else {}
        )
        key = token or connection.api_key or more.get("password")
        return cls(str(key) if key else None, by_scheme, str(user) if user else None)

    def __bool__(self) -> bool:
        return bool(self.key or self.by_scheme)

    def for_scheme(self, scheme: Scheme, *, is_alone: bool) -> str | None:
        """Return the key for a scheme; None without one."""
        if scheme.kind == "unknown":
            return None
        return self.by_scheme.get(scheme.id) or (self.key if is_alone or self.by_scheme else None)


def credentials_for(operation: Operation, keys: Keys) -> RequestCredentials:
    """Return the credentials for the operation: those of the specification's first alternative that
    has keys.

    Raises SpecificationError if there are keys, but for none of the alternatives.
    """
    if not keys or operation.security == []:
        return RequestCredentials()
    if operation.security is None:
        return _credentials_of_keys(
            keys, [(Scheme(id="", kind="bearer"), keys.key)] if keys.key else []
        )
    for alternative in operation.security:
        chosen = [
            (each, keys.for_scheme(each, is_alone=len(alternative) == 1)) for each in alternative
        ]
        if alternative and all(key for _, key in chosen):
            return _credentials_of_keys(keys, chosen)
    if [] in operation.security:
        return RequestCredentials()
    needed = " or ".join(
        " and ".join(f"{key.id} ({key.kind})" for key in each) for each in operation.security
    )
    raise SpecificationError(
        f"{operation.title} needs {needed}, for which the tool's connection has no key: write "
        "`apiKey`, or "
        "`keys: {SCHEME: ${env:NAME}}`, in it. Known are apiKey, basic, bearer, oauth2 and "
        "openIdConnect"
    )


def _credentials_of_keys(keys: Keys, chosen: list[tuple[Scheme, str | None]]) -> RequestCredentials:
    sent = RequestCredentials()
    for scheme, key in chosen:
        key = (key or "").strip()
        if _CONTROL.search(key):
            raise SpecificationError(
                "a key of the tool's connection has a line end or another control character"
            )
        sent.secrets.append(key)
        if scheme.kind == "apiKey":
            (sent.query if scheme.place == "query" else sent.headers).append((scheme.name, key))
            continue
        if scheme.kind == "basic":
            pair = key if keys.user is None else f"{keys.user}:{key}"
            key = base64.b64encode(pair.encode()).decode()
            sent.secrets.append(key)
        sent.headers.append(
            ("Authorization", f"{'Basic' if scheme.kind == 'basic' else 'Bearer'} {key}")
        )
    return sent


MAX_TOKEN_BYTES = 256 * 1024
EARLY_SECONDS = 30.0
"""Seconds before its end at which a token is no longer used."""
_USUAL_SECONDS = 300.0
"""For a token without a lifetime."""
_Key = tuple[str, ...]


class Tokens:
    """Tokens of one worker, by the connection used to obtain them."""

    def __init__(self, http: Http) -> None:
        self._http = http
        self._known: dict[_Key, tuple[str, float]] = {}

    async def token(self, connection: Connection) -> str:
        """Return a token for a connection of `kind: oauth`. Raises SpecificationError and
        HttpFailure.
        """
        key = _key(connection)
        token, expires = self._known.get(key, ("", 0.0))
        if not token or time.monotonic() > expires:
            token, seconds = await self._ask(*key)
            self._known[key] = token, time.monotonic() + max(0.0, seconds - EARLY_SECONDS)
        return token

    def forget(self, connection: Connection) -> None:
        """Request a new token the next time: a server has refused this one."""
        self._known.pop(_key(connection), None)

    async def _ask(self, url: str, id: str, secret: str, scopes: str) -> tuple[str, float]:
        form = {"grant_type": "client_credentials", **({"scope": scopes} if scopes else {})}
        pair = base64.b64encode(f"{quote_plus(id)}:{quote_plus(secret)}".encode())
        headers = [("Authorization", b"Basic " + pair), ("Accept", b"application/json")]
        media = "application/x-www-form-urlencoded"
        headers.append(("Content-Type", media.encode()))
        request = HttpRequest("POST", url, headers, Content(urlencode(form).encode(), media))
        try:
            answer = await self._http.send(request, limit=MAX_TOKEN_BYTES)
        except HttpFailure as error:  # The request that needs the token was not sent.
            raise HttpFailure(str(error), kind=error.kind, outcome_unknown=False) from None
        said = _fields_of(answer)
        token, seconds = said.get("access_token"), str(said.get("expires_in"))
        if answer.status != 200 or not isinstance(token, str) or not token:
            why = str(said.get("error_description") or said.get("error") or "no access_token in it")
            for sent in (pair.decode(), secret, quote_plus(secret)):
                why = why.replace(sent, REDACTED)
            why = redacted_excerpt(why)[:300]
            text = f"the token server {origin_of(url)} answered {answer.status}: {why}"
            raise HttpFailure(text, kind="token", outcome_unknown=False)
        return token, float(seconds) if seconds.isdecimal() else _USUAL_SECONDS


def _key(connection: Connection) -> _Key:
    url, id, secret = connection.token_url, connection.client_id, connection.client_secret
    if not (url and id and secret):
        raise SpecificationError(
            "the tool's connection of kind oauth needs `tokenUrl`, `clientId` and `clientSecret`"
        )
    try:
        origin_of(url)
    except ValueError as error:
        raise SpecificationError(f"connection.tokenUrl can't be called: {error}") from None
    scopes = connection.scopes or ""
    return url, id, secret, scopes if isinstance(scopes, str) else " ".join(scopes)


def _fields_of(answer: HttpAnswer) -> JsonObject:
    try:
        said = answer.json()
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def base_url(endpoint: str | None, server: str, source: str | None) -> str:
    """Return the base URL for the operation's path: the connection's endpoint, else the
    specification's server.

    Raises SpecificationError.
    """
    url = endpoint or (server if source is None else urljoin(source, server))
    named = "connection.endpoint" if endpoint else "the specification's server"
    if "://" not in url:
        raise SpecificationError(
            f"{named} is {server!r:.200}, which names no host: write `endpoint: https://…` in the "
            "tool's connection"
        )
    try:
        origin_of(url)
    except ValueError as error:
        raise SpecificationError(
            f"{named} {url.rpartition('@')[2]!r:.200} can't be called: {error}"
        ) from None
    parts = urlsplit(url)
    if parts.query or parts.fragment:
        raise SpecificationError(
            f"{named} has a query or a fragment: paths can't be appended to it"
        )
    return url.rstrip("/")


def require_trusted(url: str, endpoint: str | None, source: str | None) -> None:
    """Raises SpecificationError if a key would go to a host that only a remote specification
    names.
    """
    if endpoint or source is None or origin_of(url) == origin_of(source):
        return
    raise SpecificationError(
        f"the specification at {origin_of(source)} names the server {origin_of(url)}, and the "
        "tool's key is not sent "
        f"to another host because a specification says so: write `endpoint: {url}` in the tool's "
        "connection"
    )
