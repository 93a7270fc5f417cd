"""Reads which server a URL leads to, and whether a list of hosts has it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_URL = re.compile(r"(https?)://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(\d{1,5}))?(?:[/?#][^\s\\]*)?", re.IGNORECASE)
"""Nothing that two programs could read in two ways: no user, no backslash, no name in other letters."""
_PORTS = {"http": 80, "https": 443}


class Server(NamedTuple):
    """What two URLs of one server have in common."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        """As people write it: `host`, or `host:port` where that is not the usual one."""
        return self.host if self.port == _PORTS[self.scheme] else f"{self.host}:{self.port}"


def server_in(url: str | None) -> Server | None:
    """The server that a URL leads to; None for anything but a plain HTTP URL."""
    match = _URL.fullmatch(url or "")
    if match is None:
        return None
    scheme = match[1].lower()
    return Server(scheme, match[2].lower(), int(match[3] or _PORTS[scheme]))


def is_listed(server: Server, hosts: Iterable[str]) -> bool:
    """Whether one of the hosts means the server: `name`, `name:port`, `*.domain` for all below it, `*` for any.

    A name without a port means every port of the host.
    """
    return any(_means(host.lower(), server) for host in hosts)


def _means(host: str, server: Server) -> bool:
    name, colon, port = host.rpartition(":") if re.search(r":\d+$", host) else (host, "", "")
    if colon and int(port) != server.port:
        return False
    return name in ("*", server.host) or (name.startswith("*.") and server.host.endswith(name[1:]))
