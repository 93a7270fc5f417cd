"""The MCP servers that a worker's owner has given names, for files that refer to them by `kind: reference`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...agent import Connection, McpTool
from ...errors import ConfigurationError
from ...redaction import know_client
from .declaration import Server, problems_of, server_of

_OF_CONNECTION = ("kind", "endpoint", "apiKey")
_servers: dict[str, Server] = {}


def register_mcp_server(name: str, server: Mapping[str, Any]) -> None:
    """Let agents use a server by `connection: {kind: reference, name: …}`, in place of an earlier one of that name.

    `server` has `endpoint`, `apiKey` and `headers`, or `command`, `args`, `env` and `cwd`, as files have them. Raises
    ConfigurationError for what is no server.
    """
    _servers[name] = named_server(name, server)


def registered_server(name: str) -> Server | None:
    """The server that this process has registered under the name, or None."""
    return _servers.get(name)


def named_server(name: str, fields: Mapping[str, Any]) -> Server:
    """The server that an owner describes. Raises ConfigurationError for what is none."""
    connection = {key: value for key, value in fields.items() if key in _OF_CONNECTION}
    options = {key: value for key, value in fields.items() if key not in _OF_CONNECTION}
    tool = McpTool(name=name, connection=Connection.model_validate(connection), options=options)
    if found := list(problems_of(tool)):
        raise ConfigurationError(f"The MCP server {name!r}: {'; '.join(found)}")
    know_client(f"mcp {name}", tool.connection)
    return server_of(tool)
