"""Allowed servers, and their keys."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urljoin, urlsplit

from ...declared_tools import Connection
from ...json_types import JsonObject
from ..http import origin_of
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
    def of(cls, connection: Connection | None) -> Keys:
        """Return those of a connection."""
        if connection is None or connection.kind == "anonymous":
            return cls()
        more: JsonObject = connection.model_extra or {}
        named, user = more.get("keys"), more.get("username")
        by_scheme = (
            {str(name): str(value) for name, value in named.items()}
            if isinstance(named, dict)
            else {}
        )
        key = connection.api_key or more.get("password")
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
