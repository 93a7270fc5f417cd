"""`perdure connect`: grants the workers of this user tokens for an MCP server, in a browser."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from ..declared_tools import Connection, McpTool, Tool
from ..prompty.portable import is_reference
from ..tools.mcp.declaration import OAuth, is_personal, oauth_of, problems_of
from . import shared_options as options
from .agent_file import load_agent
from .command import execute
from .problems import Failure, UsageProblem


def connect(
    server: Annotated[
        str,
        typer.Argument(
            metavar="SERVER",
            help="The server's URL, or an agent's file with servers of kind oauth.",
        ),
    ],
    tool: Annotated[
        str | None, typer.Option("--tool", metavar="NAME", help="Only this tool of the file.")
    ] = None,
    client_id: Annotated[
        str | None,
        typer.Option("--client-id", metavar="ID", help="A client that is registered already."),
    ] = None,
    scopes: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            metavar="NAME",
            help="The scopes to request; default: those that the server names.",
        ),
    ] = None,
    port: Annotated[
        int,
        typer.Option(
            "--port", min=0, max=65535, help="The port of 127.0.0.1 that the browser returns to."
        ),
    ] = 0,
    browser: Annotated[
        bool, typer.Option(help="Open a browser; the address is printed in any case.")
    ] = True,
    timeout: Annotated[
        float, typer.Option(min=1, help="How many seconds to wait for the browser.")
    ] = 300.0,
    as_json: options.AsJson = False,
    log_level: options.LogLevel = None,
    log_format: options.LogFormat = None,
) -> None:
    """Grant workers tokens for an MCP server, in a browser.

    perdure keeps the tokens in a file in PERDURE_HOME that only this user can read, and never in a
    run. The workers of this user on this machine use and renew them.
    """
    found = _of_url(server, client_id, scopes) if "://" in server else _of_file(Path(server), tool)
    flow = _flow()
    execute(flow.connect_all(found, flow.Browser(port, browser, timeout), as_json=as_json))


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


def _of_url(url: str, client_id: str | None, scopes: list[str] | None) -> dict[str, OAuth]:
    connection = Connection(kind="oauth", endpoint=url, client_id=client_id, scopes=scopes)
    return {url: _oauth(McpTool(name="server", connection=connection), "SERVER")}


def _of_file(file: Path, tool: str | None) -> dict[str, OAuth]:
    declared = [each for each in load_agent(file).tools or () if tool in (None, each.name)]
    personal = [each for each in declared if _is_personal(each)]
    if not personal:
        raise UsageProblem(
            f"{str(file)!r} has no tool{f' {tool!r}' if tool else ''} that a person connects. "
            "Expected kind: mcp with "
            "connection: {kind: oauth, endpoint: …} (perdure docs tools-mcp)"
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
