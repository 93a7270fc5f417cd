"""`perdure connect`: grants the workers of this user tokens for an MCP server, in a browser."""

from __future__ import annotations

from collections.abc import Coroutine
from importlib import import_module
from pathlib import Path
from typing import Any

from ..declared_tools import Connection, McpTool, Tool
from ..prompty.portable import is_reference
from ..tools.mcp.declaration import OAuth, is_personal, oauth_of, problems_of
from .agent_file import load_agent
from .given import Given
from .problems import Failure, UsageProblem


def connect(given: Given) -> Coroutine[Any, Any, int]:
    """Find the servers, and connect to them."""
    found = _of_url(given) if "://" in given.server else _of_file(Path(given.server), given.tool)
    flow = _flow()
    browser = flow.Browser(given.port, given.browser, given.timeout)
    connecting: Coroutine[Any, Any, int] = flow.connect_all(found, browser, as_json=given.as_json)
    return connecting


def _flow() -> Any:
    """Return the module that connects: the SDK takes a second to import, and may not be
    installed.
    """
    try:
        return import_module(".connecting", __package__)
    except ModuleNotFoundError as error:
        raise Failure(
            f"kind: mcp needs the package mcp: pip install 'perdure[mcp]' ({error})"
        ) from None


def _of_url(given: Given) -> dict[str, OAuth]:
    scopes = list(given.scope) or None
    connection = Connection(
        kind="oauth", endpoint=given.server, client_id=given.client_id, scopes=scopes
    )
    return {given.server: _oauth(McpTool(name="server", connection=connection), "SERVER")}


def _of_file(file: Path, tool: str | None) -> dict[str, OAuth]:
    declared = [each for each in load_agent(file).tools or () if tool in (None, each.name)]
    personal = [each for each in declared if _is_personal(each)]
    if not personal:
        raise UsageProblem(
            f"{str(file)!r} has no tool{f' {tool!r}' if tool else ''} that a person connects. "
            f"Expected kind: mcp with connection: {{kind: oauth, endpoint: …}} (perdure docs "
            "tools-mcp)"
        )
    return {each.name: _oauth(each, f"{file}: tools.{each.name}") for each in personal}


def _is_personal(tool: Tool) -> bool:
    connection = getattr(tool, "connection", None) if tool.kind == "mcp" else None
    return connection is not None and connection.kind == "oauth" and is_personal(connection)


def _oauth(tool: Tool, place: str) -> OAuth:
    for problem in problems_of(tool):
        raise UsageProblem(f"{place}: {problem}")
    connection: Connection = tool.connection  # type: ignore[union-attr, assignment]
    for value in (connection.endpoint, connection.client_id, connection.client_secret):
        if value and is_reference(value):
            raise UsageProblem(
                f"{place}: {value} is not known here: set the variable, and type the command again"
            )
    return oauth_of(connection)
