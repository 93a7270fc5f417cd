"""Reads a file's declaration of an MCP server, and the limits for its messages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from ...declared_tools import Connection, CustomTool, McpApprovalMode, McpTool, Tool
from ...json_types import JsonView
from ...prompty.portable import is_reference
from ...redaction import redact
from ...text import did_you_mean, one_line

DISCOVERY_SECONDS = 10.0
"""Seconds for connecting to a server and listing its tools."""
MAX_DISCOVERY_SECONDS = 50.0
"""A run waits 60 seconds for the functions of its tools."""

_OF_COMMANDS = ("args", "env", "cwd")
_OF_REGISTERED = frozenset({"command", *_OF_COMMANDS, "headers"})
_OPTIONS = ("command", *_OF_COMMANDS, "headers", "discoveryTimeout")
_CONNECTIONS = ("key", "anonymous", "remote", "oauth")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True)
class OAuth:
    """Settings for tokens of an MCP server."""

    endpoint: str
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    issuer: str = ""
    """The authorization server of the client; "" for the one that the MCP server names."""
    token_url: str = ""
    scopes: str = ""
    is_personal: bool = False
    """Whether a person has granted them (`perdure connect`); otherwise they are the client's
    own."""


@dataclass(frozen=True)
class Server:
    """An MCP server and its credentials. Equal ones share a connection."""

    endpoint: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    cwd: str | None = None
    oauth: OAuth | None = None

    def __str__(self) -> str:
        """Return its address, without possible secrets."""
        if self.command:
            return one_line(f"{self.command} …" if self.args else self.command, 200)
        url = urlsplit(self.endpoint)
        return one_line(f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}", 200)

    def __repr__(self) -> str:
        return f"Server({self})"


def server_of(tool: Tool) -> Server:
    """Return the server of a declaration without `problems_of`, its references to the environment
    resolved.
    """
    options = options_of(tool)
    if command := options.get("command"):
        return Server(
            command=command,
            args=tuple(map(str, options.get("args") or ())),
            env=tuple(
                sorted((name, str(value)) for name, value in (options.get("env") or {}).items())
            ),
            cwd=options.get("cwd"),
        )
    connection: Connection = getattr(tool, "connection", None) or Connection()
    headers = {name.lower(): str(value) for name, value in (options.get("headers") or {}).items()}
    if connection.api_key and connection.kind == "key":
        headers.setdefault("authorization", f"Bearer {connection.api_key}")
    oauth = oauth_of(connection) if connection.kind == "oauth" else None
    return Server(
        endpoint=connection.endpoint or "", headers=tuple(sorted(headers.items())), oauth=oauth
    )


def oauth_of(connection: Connection) -> OAuth:
    """Return the token settings of a connection of `kind: oauth`."""
    scopes = connection.scopes or ""
    return OAuth(
        endpoint=connection.endpoint or "",
        client_id=connection.client_id or "",
        client_secret=connection.client_secret or "",
        issuer=connection.issuer or "",
        token_url=connection.token_url or "",
        scopes=scopes if isinstance(scopes, str) else " ".join(scopes),
        is_personal=is_personal(connection),
    )


def is_personal(connection: Connection) -> bool:
    """Return whether a person grants the tokens of a connection of `kind: oauth`."""
    return (
        connection.authentication_mode or ("system" if connection.client_secret else "user")
    ) == "user"


def reference_of(tool: Tool) -> str:
    """Return the name under which the worker's owner has registered the server; "" for a server
    described in the file.
    """
    connection: Connection | None = getattr(tool, "connection", None)
    return (
        (connection.name or "") if connection is not None and connection.kind == "reference" else ""
    )


def title_of(tool: Tool) -> str:
    """Return the server's name in messages and in the names of its functions."""
    return getattr(tool, "server_name", None) or tool.name


def discovery_seconds(tool: Tool) -> float:
    """Return the time-out for connecting to the server and listing its tools."""
    return float(options_of(tool).get("discoveryTimeout") or DISCOVERY_SECONDS)


def options_of(tool: Tool) -> JsonView:
    """Return the declaration's `options`; empty without any."""
    return getattr(tool, "options", None) or {}


def problems_of(tool: Tool) -> Iterator[str]:
    """Yield the faults of a declaration, a sentence each."""
    if not isinstance(tool, McpTool | CustomTool):
        yield f"expected kind: mcp, not {tool.kind!r}"
        return
    options, connection = options_of(tool), tool.connection
    endpoint = connection.endpoint if connection else None
    if connection is not None and connection.kind == "reference":
        yield from _problems_of_reference(connection, options)
    elif bool(endpoint) == bool(options.get("command")):
        yield (
            "expected either connection.endpoint (streamable HTTP) or options.command (stdio), or "
            f"connection: {{kind: "
            f"reference, name: …}}; it has {'both' if endpoint else 'neither'}"
        )
    elif endpoint:
        yield from _problems_of_http(connection.kind if connection else "", endpoint, options)
        if connection is not None and connection.kind == "oauth":
            yield from _problems_of_oauth(connection, options)
    else:
        yield from _problems_of_stdio(options)
    if unknown := sorted(set(options) - set(_OPTIONS)):
        yield f"options.{unknown[0]} is unknown: expected {', '.join(_OPTIONS)}"
    yield from _problems_of_approvals(getattr(tool, "approval_mode", None))
    seconds = options.get("discoveryTimeout")
    if seconds is not None and not (
        isinstance(seconds, int | float) and 0 < seconds <= MAX_DISCOVERY_SECONDS
    ):
        yield (
            f"options.discoveryTimeout is {seconds!r}: expected seconds, at most "
            f"{MAX_DISCOVERY_SECONDS:g}"
        )


def _problems_of_reference(connection: Connection, options: JsonView) -> Iterator[str]:
    if not connection.name:
        yield (
            "connection.name is missing: expected the name under which the worker's owner has "
            "registered the server"
        )
    said = ["connection.endpoint"] if connection.endpoint else []
    if said := [*said, *(f"options.{name}" for name in sorted(options.keys() & _OF_REGISTERED))]:
        yield (
            f"{said[0]} stands beside connection.kind 'reference': how the server is reached says "
            "its registration"
        )


def _problems_of_approvals(mode: McpApprovalMode | None) -> Iterator[str]:
    """Yield the faults of the mode. They are errors: a misspelt list would run tools without a
    required approval.
    """
    if mode is None:
        return
    known = ("alwaysRequireApprovalTools", "neverRequireApprovalTools")
    for name in mode.model_extra or ():
        yield (
            f"approvalMode.{name} is unknown{did_you_mean(name, known)}: expected kind, "
            f"{', '.join(known)}"
        )
    named = (mode.always_require_approval_tools, mode.never_require_approval_tools)
    if mode.kind == "specify" and named == (None, None):
        yield f"approvalMode.kind is 'specify': expected {' or '.join(known)} beside it"


def _problems_of_http(kind: str, endpoint: str, options: JsonView) -> Iterator[str]:
    if kind not in _CONNECTIONS:
        yield (
            f"connection.kind is {kind!r}: expected one of {', '.join(_CONNECTIONS)}; other "
            "credentials than a key go "
            "into options.headers"
        )
    if not is_reference(endpoint):
        yield from _problems_of_endpoint(endpoint)
    for name in _OF_COMMANDS:
        if options.get(name):
            yield (
                f"options.{name} is for a server that is started by options.command; this one has "
                "connection.endpoint"
            )
    headers = options.get("headers") or {}
    if not _is_text_map(headers):
        yield "options.headers: expected a map from names to texts, such as X-Team: blue"
    elif bad := [name for name in headers if not _HEADER.fullmatch(name)]:
        yield f"options.headers: {bad[0]!r} can't be the name of an HTTP header"
    elif bad := [
        name
        for name, value in headers.items()
        if not str(value).isascii() or re.search(r"[\r\n\0]", str(value))
    ]:
        yield (
            f"options.headers: the value of {bad[0]!r} can't be sent: expected one line of ASCII "
            "text"
        )


def _problems_of_oauth(connection: Connection, options: JsonView) -> Iterator[str]:
    mode = connection.authentication_mode
    if mode not in (None, "user", "system"):
        yield (
            f"connection.authenticationMode is {mode!r}: expected user (perdure connect) or system "
            "(clientSecret)"
        )
    if not is_personal(connection) and not (connection.client_id and connection.client_secret):
        yield (
            "connection.authenticationMode is 'system': expected clientId and clientSecret, as a "
            "reference, beside it"
        )
    if connection.client_secret and not connection.client_id:
        yield "connection.clientSecret has no clientId: expected both"
    if connection.client_secret and not (connection.issuer or connection.token_url):
        yield (
            "connection.clientSecret would go wherever the MCP server says: expected "
            "connection.issuer, the URL of the "
            "authorization server that it belongs to, or tokenUrl"
        )
    for name, url in (("issuer", connection.issuer), ("tokenUrl", connection.token_url)):
        if url and not is_reference(url) and not _is_safe(url):
            yield (
                f"connection.{name} is {redact(one_line(url, 200))!r}: expected a URL such as "
                "https://login.example"
            )
    if connection.api_key or any(
        str(name).lower() == "authorization" for name in options.get("headers") or ()
    ):
        yield (
            "connection.kind is 'oauth', which gets the token: leave out apiKey and "
            "options.headers.authorization"
        )


def _is_safe(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and (parts.scheme == "https" or parts.hostname in _LOOPBACK)
    except ValueError:
        return False


def _problems_of_endpoint(endpoint: str) -> Iterator[str]:
    try:
        url = urlsplit(endpoint)
        is_fit = (
            url.scheme in ("http", "https")
            and bool(url.hostname)
            and (url.port is None or url.port > 0)
        )
    except ValueError:
        is_fit = False
    if not is_fit:
        yield (
            f"connection.endpoint is {redact(one_line(endpoint, 200))!r}: expected a URL such as "
            "https://host/mcp"
        )


def _problems_of_stdio(options: JsonView) -> Iterator[str]:
    if options.get("headers"):
        yield (
            "options.headers is for a server with connection.endpoint; this one is started by "
            "options.command"
        )
    for name in ("command", "cwd"):
        if not isinstance(options.get(name) or "", str):
            yield f"options.{name} is {options[name]!r}: expected a text"
    args = options.get("args") or []
    if not isinstance(args, list) or not all(_is_scalar(item) for item in args):
        yield "options.args: expected a list of texts"
    if not _is_text_map(options.get("env") or {}):
        yield "options.env: expected a map from names to texts, such as API_KEY: ${env:API_KEY}"


def _is_text_map(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(key, str) and _is_scalar(item) for key, item in value.items()
    )


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""Limit for one message, such as a tool's answer: a result's texts and media (`SizeLimits`), in any
JSON form."""
MAX_PAGES = 100
"""Maximum number of pages of a list of tools."""
