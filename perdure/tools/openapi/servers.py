"""Which servers may be called: those that the specification or the connection names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

from .document import SpecificationError, as_map, as_text

_VARIABLE = re.compile(r"\{([^{}]*)\}")
_USER = re.compile(r"://[^/?#]*@")
_PORTS = {"http": 80, "https": 443}


class Origin(NamedTuple):
    """What two URLs of one server have in common."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        port = "" if self.port == _PORTS.get(self.scheme) else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}"


def origin_of(url: str) -> Origin:
    """The origin of an absolute URL. Raises ValueError for any other one, and for one with a user or odd characters."""
    if re.search(r"[\s\\\x00-\x1f\x7f]", url):
        raise ValueError("it has a blank, a backslash or a control character")
    _require_no_user(url)
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError("expected a URL that begins with http:// or https://")
    return Origin(parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme])


def _require_no_user(url: str) -> None:
    if _USER.search(url):
        raise ValueError("it has a user name or a password; keys belong into the tool's connection")


def server_url(server: Any, chosen: Mapping[str, str]) -> str:
    """The URL of a server object, with the defaults of its variables, or those of their values that were chosen.

    Raises SpecificationError.
    """
    server = as_map(server, "a server")
    variables = as_map(server.get("variables"), "the server's variables")

    def value(match: re.Match[str]) -> str:
        name = match[1]
        declared = as_map(variables.get(name), f"the server variable {name!r}")
        default, allowed = declared.get("default"), declared.get("enum")
        if name in chosen and not (isinstance(allowed, list) and chosen[name] in allowed):
            raise SpecificationError(
                f"options.variables.{name} is {chosen[name]!r}. Expected one of the specification's: {allowed!r:.200}"
            )
        if name not in chosen and not isinstance(default, str):
            raise SpecificationError(f"the server variable {name!r} has no default: write connection.endpoint")
        return chosen.get(name, str(default))

    return _VARIABLE.sub(value, as_text(server.get("url"), "a server's url", "/"))


def base_url(endpoint: str | None, server: str, source: str | None) -> str:
    """Where the operation's path is appended: the connection's endpoint, else the specification's server.

    Raises SpecificationError.
    """
    url = endpoint or (server if source is None else urljoin(source, server))
    named = "connection.endpoint" if endpoint else "the specification's server"
    if "://" not in url:
        raise SpecificationError(
            f"{named} is {server!r:.200}, which names no host: write `endpoint: https://…` in the tool's connection"
        )
    try:
        _require_no_user(url)
        origin_of(url)
    except ValueError as error:
        raise SpecificationError(f"{named} {url.rpartition('@')[2]!r:.200} can't be called: {error}") from None
    parts = urlsplit(url)
    if parts.query or parts.fragment:
        raise SpecificationError(f"{named} has a query or a fragment: paths can't be appended to it")
    return url.rstrip("/")


def require_trusted(url: str, endpoint: str | None, source: str | None) -> None:
    """Raises SpecificationError where a key would go to a host that only a remote specification names."""
    if endpoint or source is None or origin_of(url) == origin_of(source):
        return
    raise SpecificationError(
        f"the specification at {origin_of(source)} names the server {origin_of(url)}, and the tool's key is not sent "
        f"to another host because a specification says so: write `endpoint: {url}` in the tool's connection"
    )
