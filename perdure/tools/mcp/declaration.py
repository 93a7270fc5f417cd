"""Reads a file's declaration of an MCP server, and the limits for its messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
)
from pydantic.alias_generators import to_camel

from ...declared_tools import Connection, CustomTool, McpApprovalMode, McpTool, Tool
from ...json_types import JsonView
from ...prompty.portable import is_reference
from ...redaction import redact
from ...text import did_you_mean, one_line
from ..options import option_problems

DISCOVERY_SECONDS = 10.0
"""Seconds for connecting to a server and listing its tools."""
MAX_DISCOVERY_SECONDS = 50.0
"""A run waits 60 seconds for the functions of its tools."""

_CONNECTIONS = ("key", "anonymous", "remote", "oauth")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
Scalar = StrictStr | StrictInt | StrictFloat
HeaderName = Annotated[str, Field(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")]
HeaderValue = Annotated[StrictStr, Field(pattern=r"^[\t\x20-\x7e]*$")] | StrictInt | StrictFloat


class Options(BaseModel):
    """The `options` of any declaration, and of a server that the worker's owner has registered."""

    model_config = ConfigDict(alias_generator=to_camel, hide_input_in_errors=True)

    discovery_timeout: StrictInt | StrictFloat | None = Field(
        default=None, gt=0, le=MAX_DISCOVERY_SECONDS
    )


class RemoteOptions(Options):
    """The `options` of a server at `connection.endpoint`."""

    headers: dict[HeaderName, HeaderValue] = {}


class ProcessOptions(Options):
    """The `options` of a server that `command` starts."""

    command: str
    args: list[Scalar] = []
    env: dict[str, Scalar] = {}
    cwd: str | None = None


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
    """Return the server of a declaration that has no faults and whose references to the environment
    are resolved.
    """
    given = options_of(tool)
    if given.get("command"):
        options = ProcessOptions.model_validate(given)
        env = tuple(sorted((name, str(value)) for name, value in options.env.items()))
        return Server(
            command=options.command, args=tuple(map(str, options.args)), env=env, cwd=options.cwd
        )
    connection: Connection = getattr(tool, "connection", None) or Connection()
    written = RemoteOptions.model_validate(given).headers
    headers = {name.lower(): str(value) for name, value in written.items()}
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
    options, connection = options_of(tool), tool.connection or Connection()
    if connection.kind == "reference":
        model: type[Options] = Options
        if not connection.name or connection.endpoint:
            yield (
                "connection.kind is 'reference': expected the name of a server that the worker's "
                "owner has registered, and no endpoint"
            )
    elif bool(connection.endpoint) == bool(options.get("command")):
        yield (
            "expected either connection.endpoint (streamable HTTP) or options.command (stdio), or "
            "connection: {kind: reference, name: …}; it has "
            f"{'both' if connection.endpoint else 'neither'}"
        )
        return
    elif connection.endpoint:
        model = RemoteOptions
        yield from _problems_of_connection(connection, options)
    else:
        model = ProcessOptions
    yield from option_problems(model, options)
    yield from _problems_of_approvals(getattr(tool, "approval_mode", None))


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
        yield f"approvalMode.kind is 'specify': expected {' or '.join(known)}, too"


def _problems_of_connection(connection: Connection, options: JsonView) -> Iterator[str]:
    if connection.kind not in _CONNECTIONS:
        yield (
            f"connection.kind is {connection.kind!r}: expected one of {', '.join(_CONNECTIONS)}; "
            "other credentials than a key go into options.headers"
        )
    is_oauth = connection.kind == "oauth"
    for name, url in (
        ("endpoint", connection.endpoint),
        ("issuer", is_oauth and connection.issuer),
        ("tokenUrl", is_oauth and connection.token_url),
    ):
        if url and not is_reference(url) and not _is_url(url, is_safe=name != "endpoint"):
            shown = redact(one_line(url, 200))
            yield f"connection.{name} is {shown!r}: expected a URL such as https://host/mcp"
    if is_oauth:
        yield from _problems_of_oauth(connection, options)


def _is_url(url: str, *, is_safe: bool) -> bool:
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    is_plain = parts.scheme == "http" and (not is_safe or parts.hostname in _LOOPBACK)
    return has_host and (parts.scheme == "https" or is_plain)


def _problems_of_oauth(connection: Connection, options: JsonView) -> Iterator[str]:
    mode, secret = connection.authentication_mode, connection.client_secret
    if mode not in (None, "user", "system"):
        yield (
            f"connection.authenticationMode is {mode!r}: expected user (perdure connect) or system "
            "(clientSecret)"
        )
    if (secret or mode == "system") and not (connection.client_id and secret):
        yield (
            "connection.clientSecret, or authenticationMode 'system', needs clientId and "
            "clientSecret"
        )
    if secret and not (connection.issuer or connection.token_url):
        yield (
            "connection.clientSecret would go wherever the MCP server says: expected "
            "connection.issuer, the URL of the authorization server that it belongs to, or tokenUrl"
        )
    headers = options.get("headers") or ()
    if connection.api_key or any(str(name).lower() == "authorization" for name in headers):
        yield (
            "connection.kind is 'oauth', which gets the token: leave out apiKey and "
            "options.headers.authorization"
        )


MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""Limit for one message, such as a tool's answer: a result's texts and media (`SizeLimits`), in any
JSON form."""
MAX_PAGES = 100
"""Maximum number of pages of a list of tools."""
