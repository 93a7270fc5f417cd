"""Posts to URLs that others have given: to the address that was checked, without redirects."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from ipaddress import ip_address

from ..json_types import JsonObject
from ..prompty.worker_limits import Origin, is_private
from ..providers.clients import tls_context
from ..text import one_line

SECONDS = 15.0
"""Time for one request."""


class NotPosted(Exception):
    """The server was not called, or has not answered; the message is for people."""


async def public_address(server: Origin, advice: str = "") -> str:
    """Return an address of the server. All of them must be public: a name can lead anywhere. Raises
    `NotPosted`, with the advice for a private address.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            server.host.strip("[]"), server.port, type=socket.SOCK_STREAM
        )
    except OSError as error:
        raise NotPosted(f"the name {server.host!r} can't be resolved: {error}") from None
    addresses = [str(each[4][0]) for each in found]
    if private := [each for each in addresses if is_private(ip_address(each.partition("%")[0]))]:
        raise NotPosted(f"{server} leads to the private address {private[0]}{advice}")
    return addresses[0]


async def post(
    url: str, server: Origin, body: str | bytes, headers: Mapping[str, str], address: str | None
) -> int:
    """Return the status of the answer; ignore its body, and do not follow redirects.

    `address` is the one to connect to; None for wherever the name leads. Raises `NotPosted`.
    """
    import httpx2

    extensions: JsonObject = {}
    trusts_environment = address is None
    checks = tls_context() if trusts_environment else tls_context(trust_env=False)
    if address is not None:  # Connect to the checked address: the name may lead elsewhere by now.
        headers = {**headers, "host": server.address}
        extensions = {"sni_hostname": server.host.strip("[]")}
    try:
        target = httpx2.URL(url)
        if address is not None:
            target = target.copy_with(host=address)
        async with (
            httpx2.AsyncClient(
                timeout=SECONDS, trust_env=trusts_environment, verify=checks
            ) as client,
            client.stream(
                "POST", target, content=body, headers=headers, extensions=extensions
            ) as response,
        ):
            return int(response.status_code)
    except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError) as error:
        text = one_line(str(error), 300) or type(error).__name__
        raise NotPosted(f"{server} can't be reached: {text}") from None
