"""The limits that a worker's owner sets for agents: commands, variables, kinds of tools, and
servers; the providers' keys in the environment, and the servers that may get them.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import NamedTuple

from ..errors import ConfigurationError

_URL = re.compile(
    r"(?a:(https?)://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(\d{1,5}))?)(?:[/?#][^\s\\]*)?",
    re.IGNORECASE,
)
"""Accepts only URLs that all programs parse alike: no user, no backslash, no name in other
letters."""
PORTS = {"http": 80, "https": 443}


class Origin(NamedTuple):
    """The part that all URLs of one server share."""

    scheme: str
    host: str
    """In lower case; an IPv6 address in brackets."""
    port: int

    @property
    def address(self) -> str:
        """`host`, or `host:port` if the port is not the default."""
        return self.host if self.port == PORTS[self.scheme] else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.address}"


@lru_cache(maxsize=1024)
def server_in(url: str | None) -> Origin | None:
    """Return the server of a URL; None for anything but a plain HTTP URL."""
    match = _URL.fullmatch(url or "")
    if match is None:
        return None
    scheme = match[1].lower()
    return Origin(scheme, match[2].lower(), int(match[3] or PORTS[scheme]))


def is_listed(server: Origin, hosts: Iterable[str]) -> bool:
    """Return whether one of the hosts matches the server: `name`, `name:port`, `*.domain` for all
    below it, `*` for any.

    A name without a port matches every port of the host.
    """
    return any(_means(host.lower(), server) for host in hosts)


def accepts_host(header: str, hosts: Collection[str]) -> bool:
    """Return whether a request with that header `Host` is meant for one of the hosts; see
    `is_listed`.
    """
    server = None if re.search("[/?#]", header) else server_in(f"http://{header}")
    return "*" in hosts or (server is not None and is_listed(server, hosts))


def _means(host: str, server: Origin) -> bool:
    name, colon, port = host.rpartition(":") if re.search(r":\d+$", host) else (host, "", "")
    if colon and int(port) != server.port:
        return False
    return name in ("*", server.host) or (name.startswith("*.") and server.host.endswith(name[1:]))


@dataclass(frozen=True)
class AmbientKey:
    """An environment variable with a provider's key, and the servers that the key is for."""

    variable: str
    hosts: tuple[str, ...]
    """The provider's own hosts, which are called over TLS."""
    endpoint_variables: tuple[str, ...]
    """Variables by which the environment names another server that gets the key."""
    argument: str = "api_key"
    """The argument of the SDK's client that takes the key."""

    @property
    def value(self) -> str:
        """Key; "" for none."""
        return os.environ.get(self.variable, "")

    def fits(self, endpoint: str | None) -> bool:
        """Return whether the server may get the key; None is the SDK's default server."""
        if endpoint is None:
            return True
        server = server_in(endpoint)
        if server is None:
            return False
        if server.scheme == "https" and server.port == 443 and is_listed(server, self.hosts):
            return True
        return server in (
            server_in(os.environ.get(variable)) for variable in self.endpoint_variables
        )


_OPENAI_KEY = AmbientKey(
    "OPENAI_API_KEY", ("api.openai.com", "*.api.openai.com"), ("OPENAI_BASE_URL",)
)
_AZURE_SERVERS = (
    ("*.openai.azure.com", "*.services.ai.azure.com", "*.cognitiveservices.azure.com"),
    ("AZURE_OPENAI_ENDPOINT", "OPENAI_BASE_URL"),
)
_AZURE_TOKEN = AmbientKey("AZURE_OPENAI_AD_TOKEN", *_AZURE_SERVERS, argument="azure_ad_token")
AZURE_KEY = AmbientKey("AZURE_OPENAI_API_KEY", *_AZURE_SERVERS)
_ANTHROPIC = ("api.anthropic.com", "*.api.anthropic.com"), ("ANTHROPIC_BASE_URL",)
_ANTHROPIC_KEYS = (
    AmbientKey("ANTHROPIC_API_KEY", *_ANTHROPIC),
    AmbientKey("ANTHROPIC_AUTH_TOKEN", *_ANTHROPIC, argument="auth_token"),
)
_AZURE_KEYS = (_AZURE_TOKEN, AZURE_KEY, _OPENAI_KEY)
_KEYS = {
    "openai": (_OPENAI_KEY,),
    "azure": _AZURE_KEYS,
    "foundry": _AZURE_KEYS,
    "anthropic": _ANTHROPIC_KEYS,
}
PROVIDER_KEYS = (*_AZURE_KEYS, *_ANTHROPIC_KEYS)
"""All keys that perdure sends without further configuration."""


def keys_for(provider: str) -> tuple[AmbientKey, ...]:
    """Keys of the environment that are for a provider, by its key; none for an unknown one."""
    return _KEYS.get(provider, ())


ANY = "*"
VARIABLES = {
    name: f"PERDURE_ALLOW_{name.upper()}" for name in ("commands", "env", "hosts", "kinds")
}
"""The environment variable of each limit: names, separated by commas."""
_METADATA_NAMES = (
    "metadata.google.internal",
    "metadata.goog",
    "metadata",
    "instance-data",
    "instance-data.ec2.internal",
)
_METADATA = tuple(
    ip_network(each)
    for each in (
        "169.254.0.0/16",
        "fe80::/10",
        "100.100.100.200/32",
        "168.63.129.16/32",
        "fd00:ec2::/32",
        "fd20:ce::254/128",
    )
)
"""The addresses of clouds' credential services."""
_ODD_ADDRESS = re.compile(r"(?:0x[0-9a-f]*|\d+)(?:\.(?:0x[0-9a-f]*|\d+)){0,3}")
"""Spellings of IPv4 addresses that resolvers understand, not all of them alike, such as 0xa9fea9fe
and 0251.254.1."""
_SPECIAL = tuple(
    ip_network(each)
    for each in (
        *(
            "192.0.0.0/24",
            "192.31.196.0/24",
            "192.52.193.0/24",
            "192.88.99.0/24",
            "192.175.48.0/24",
        ),
        *("2001::/23", "2620:4f:8000::/48", "3fff::/20"),
    )
)
"""Networks of IANA's registries of special purposes that a version of Python treats, in whole or in
part, as global."""
_UNICAST = ip_network("2000::/3")
"""All IPv6 addresses of networks of the public internet."""
_WITH_IPV4 = tuple(ip_network(each) for each in ("::/96", "64:ff9b::/96", "64:ff9b:1::/48"))
"""IPv6 networks whose addresses end with the IPv4 address that packets reach."""


class Refused(NamedTuple):
    """A refusal of a worker, and the limit and the name that would allow it."""

    does: str
    """The text after "this worker"."""
    limit: str = ""
    """"" if only `*` in `hosts` would allow it."""
    name: str = ""

    def __str__(self) -> str:
        option = (
            f": start it with --allow-{self.limit} {shlex.quote(self.name)}" if self.limit else ""
        )
        return (
            f"this worker {self.does}"
            f"{option and f'{option} (perdure docs worker-limits) if agents may use that'}"
        )


@dataclass(frozen=True)
class WorkerLimits:
    """The limits of a worker for all agents, regardless of their authors; `*` in a list means all.

    The default trusts no agent: it starts no command, and sends no secret but a provider's key to
    that provider. Raises ConfigurationError for a text in the place of a list.
    """

    commands: Collection[str] = ()
    """The allowed values of `options.command` of an MCP server."""
    env: Collection[str] = ()
    """The variables that `${env:NAME}` may name, besides a provider's key for that provider."""
    hosts: Collection[str] | None = None
    """The hosts that may be called and may get secrets of the worker: `name`, `name:port`,
    `*.domain`.

    None lets agents call any host but clouds' credential services, without secrets of the worker.
    """
    kinds: Collection[str] = (ANY,)
    """The kinds of tools that agents may have besides `function`."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if isinstance(value := getattr(self, field.name), str):
                raise ConfigurationError(
                    f"WorkerLimits({field.name}={value!r}): expected a list of names"
                )

    @classmethod
    def from_environment(cls) -> WorkerLimits:
        """Return the limits in `PERDURE_ALLOW_COMMANDS` and the like; the default for unset
        ones.
        """
        return cls().with_names(
            {name: [os.environ.get(variable, "")] for name, variable in VARIABLES.items()}
        )

    def with_names(self, given: Mapping[str, Collection[str] | None]) -> WorkerLimits:
        """Return a copy in which each list that has names is replaced; one text may hold several,
        separated by commas.
        """
        found = {name: _names(texts or ()) for name, texts in given.items()}
        old = {field.name: getattr(self, field.name) for field in fields(self)}
        return WorkerLimits(**{**old, **{name: names for name, names in found.items() if names}})

    def as_environment(self) -> dict[str, str]:
        """Return the variables that set the same limits in another process."""
        values = {name: getattr(self, name) for name in VARIABLES}
        return {VARIABLES[name]: ",".join(value) for name, value in values.items() if value}

    def allows(self, what: str, name: str) -> bool:
        """Return whether a name is in one of the lists `commands`, `env` and `kinds`."""
        listed = getattr(self, what)
        return ANY in listed or name in listed

    def refusal_of_url(self, url: str, *, with_secret: bool) -> str:
        """Return why the worker must not call that URL, with one of its secrets or without; "" if
        it may.
        """
        refused = refused_url(self, url, with_secret=with_secret)
        return str(refused) if refused else ""


OPEN = WorkerLimits(commands=(ANY,), env=(ANY,), hosts=(ANY,), kinds=(ANY,))
"""For the worker owner's own agents."""


def refused_url(limits: WorkerLimits, url: str, *, with_secret: bool) -> Refused | None:
    """Return the refusal of a URL by a worker with these limits, with a secret of its own or
    without; None if it may.
    """
    server = server_in(url)
    if server is None:
        return (
            None
            if ANY in (limits.hosts or ())
            else Refused(f"only calls plain URLs of servers, not {url[:100]!r}")
        )
    name = server.address
    if limits.hosts is not None:
        return (
            None
            if is_listed(server, limits.hosts)
            else Refused(f"does not call the host {name!r}", "hosts", name)
        )
    if with_secret:
        return Refused(f"does not send its secrets to {name!r}", "hosts", name)
    return (
        Refused(f"does not call the host {name!r}", "hosts", name)
        if _gives_credentials(server)
        else None
    )


def wider_limits(limits: WorkerLimits, refused: Iterable[Refused]) -> WorkerLimits:
    """Return a copy that allows the refused things, if names in its lists can."""
    for _, limit, name in refused:
        if limit and name not in (listed := getattr(limits, limit) or ()):
            limits = replace(limits, **{limit: (*listed, name)})
    return limits


def options_for(limits: WorkerLimits, wider: WorkerLimits) -> str:
    """Return the options of `perdure worker` that widen the limits to the wider ones."""
    changed = [name for name in VARIABLES if getattr(wider, name) != getattr(limits, name)]
    return " ".join(
        f"--allow-{name} {shlex.quote(','.join(getattr(wider, name)))}" for name in changed
    )


def _names(texts: Collection[str]) -> tuple[str, ...]:
    return tuple(name for text in texts for part in text.split(",") if (name := part.strip()))


def _gives_credentials(server: Origin) -> bool:
    host = server.host.rstrip(".")
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        return host in _METADATA_NAMES or _ODD_ADDRESS.fullmatch(host) is not None
    address = _ipv4_in(address) or address
    return any(address in network for network in _METADATA)


def is_private(address: IPv4Address | IPv6Address) -> bool:
    """Return whether an address is outside the public internet: in a special-purpose range, or a
    cloud's metadata service. An IPv6 address that embeds an IPv4 address counts as the latter.
    """
    address = _ipv4_in(address) or address
    is_special = any(address in each for each in (*_SPECIAL, *_METADATA))
    is_unicast = address in _UNICAST if address.version == 6 else not address.is_multicast
    return is_special or not is_unicast or not address.is_global


def _ipv4_in(address: IPv4Address | IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 address embeds; None for any other address."""
    if address.version == 4:
        return None
    if address.ipv4_mapped is not None or any(address in network for network in _WITH_IPV4):
        return IPv4Address(address.packed[-4:])
    return address.sixtofour
