"""Allowed servers, and their keys."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from urllib.parse import urljoin, urlsplit

from ...declared_tools import Connection
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


def key_of(connection: Connection | None) -> str | None:
    """Return the key of a connection; None without one."""
    is_none = connection is None or connection.kind == "anonymous"
    return None if is_none else connection.api_key  # type: ignore[union-attr]


def credentials_for(operation: Operation, key: str | None) -> RequestCredentials:
    """Return the key as the operation takes it: by the specification's first alternative that needs
    one key of a known kind, or as `Bearer` if the specification does not mention keys.

    Raises SpecificationError for a key without such an alternative.
    """
    if not key or operation.security == []:
        return RequestCredentials()
    alternatives = operation.security or [[Scheme(id="", kind="bearer")]]
    for alternative in alternatives:
        if len(alternative) == 1 and alternative[0].kind != "unknown":
            return _credentials_of(alternative[0], key.strip())
    if [] in alternatives:
        return RequestCredentials()
    needed = " or ".join(
        " and ".join(f"{scheme.id} ({scheme.kind})" for scheme in each) for each in alternatives
    )
    raise SpecificationError(
        f"{operation.title} needs {needed}: expected one key, by apiKey, basic, bearer, oauth2 or "
        "openIdConnect"
    )


def _credentials_of(scheme: Scheme, key: str) -> RequestCredentials:
    if _CONTROL.search(key):
        raise SpecificationError(
            "the key of the tool's connection has a line end or another control character"
        )
    if scheme.kind == "apiKey":
        pairs = [(scheme.name, key)]
        return (
            RequestCredentials(query=pairs, secrets=[key])
            if scheme.place == "query"
            else RequestCredentials(pairs, secrets=[key])
        )
    sent = base64.b64encode(key.encode()).decode() if scheme.kind == "basic" else key
    word = "Basic" if scheme.kind == "basic" else "Bearer"
    return RequestCredentials([("Authorization", f"{word} {sent}")], secrets=[key, sent])


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
        "tool's key is not sent to another host because a specification says so: write `endpoint: "
        f"{url}` in the tool's connection"
    )
