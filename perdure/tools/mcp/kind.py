"""Tools of MCP servers: listed once for each run, and called over connections that the worker's
runs share.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from ...declared_tools import Connection, McpTool, Tool
from ...errors import ConfigurationError
from ...json_types import JsonView
from ...messages import ToolResult
from ...redaction import know_client
from ..kind import Asking, KindCall, Offering, ToolKind, ToolOfferError
from .declaration import Server, discovery_seconds, problems_of, reference_of, server_of, title_of
from .offering import offerings

if TYPE_CHECKING:
    from .calls import Target
    from .connection import Pool

_OF_CONNECTION = (
    *("kind", "endpoint", "apiKey"),
    *("authenticationMode", "clientId", "clientSecret", "issuer", "tokenUrl", "scopes"),
)
_servers: dict[str, Server] = {}


def register_mcp_server(name: str, server: JsonView) -> None:
    """Register a server for `connection: {kind: reference, name: …}` in agents, in place of an
    earlier one of that name.

    `server` has `endpoint`, `apiKey` and `headers`, or `command`, `args`, `env` and `cwd`, as in
    files. Raises ConfigurationError for an invalid server.
    """
    _servers[name] = _named_server(name, server)


def _named_server(name: str, fields: JsonView) -> Server:
    """Return the server described by an owner. Raises ConfigurationError for an invalid one."""
    connection = {key: value for key, value in fields.items() if key in _OF_CONNECTION}
    options = {key: value for key, value in fields.items() if key not in _OF_CONNECTION}
    tool = McpTool(name=name, connection=Connection.model_validate(connection), options=options)
    if found := list(problems_of(tool)):
        raise ConfigurationError(f"The MCP server {name!r}: {'; '.join(found)}")
    know_client(f"mcp {name}", tool.connection)
    return server_of(tool)


IDLE_SECONDS = 300.0
INSTALL = "kind: mcp needs the package mcp on the worker: pip install 'perdure[mcp]'"


class McpKind(ToolKind):
    """`kind: mcp`.

    Args:
        idle_seconds: Seconds after which an idle connection is closed.
    """

    asks_others: ClassVar[bool] = True
    closes_schemas: ClassVar[bool] = False

    def __init__(self, *, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._pool: Pool | None = None

    def problems(self, tool: Tool) -> Sequence[str]:
        """Return the faults of a declaration, a sentence each."""
        return list(problems_of(tool))

    async def offer(self, tool: Tool, asking: Asking) -> Sequence[Offering]:
        """Return the server's tools, as the declaration allows. Raises ToolOfferError: see
        `list_tools` and `offerings`.
        """
        if problems := self.problems(tool):
            raise ToolOfferError(f"Tool {tool.name!r}: {'; '.join(problems)}")
        target, pool, calls = await self._target_and_pool(tool)
        listed = await calls.list_tools(pool, target)
        return offerings(tool, listed)

    async def execute(self, call: KindCall) -> ToolResult:
        """Call the server's tool: see `call_tool`. Raises ToolOfferError if the worker may not
        start the server.
        """
        target, pool, calls = await self._target_and_pool(call.tool)
        return await calls.call_tool(pool, target, call)  # type: ignore[no-any-return]

    async def close(self) -> None:
        """Close all connections, and end the servers' processes."""
        if self._pool is not None:
            await self._pool.close()

    async def _target_and_pool(self, tool: Tool) -> tuple[Target, Pool, Any]:
        name = reference_of(tool)
        server = _registered_server(tool, name) if name else server_of(tool)
        calls = await _import_calls()
        if self._pool is None:  # There is no await from here on, so only one pool is created.
            self._pool = calls.Pool(self._idle_seconds)
        return calls.Target(server, title_of(tool), discovery_seconds(tool)), self._pool, calls


def _registered_server(tool: Tool, name: str) -> Server:
    if name not in _servers:
        raise ToolOfferError(
            f"Tool {tool.name!r}: this worker has no MCP server {name!r}. Its owner gives it one: "
            f"perdure.tools.register_mcp_server({name!r}, {{'endpoint': …}}) in a module of --tools"
        )
    return _servers[name]


async def _import_calls() -> ModuleType:
    """Import, in a thread, the module that uses the SDK, which takes a second. Raises
    ToolOfferError if the SDK is not installed.
    """
    try:
        return await asyncio.to_thread(import_module, f"{__package__}.calls")
    except ModuleNotFoundError as error:
        raise ToolOfferError(f"{INSTALL} ({error})") from None
