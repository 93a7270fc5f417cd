"""`perdure connect`: grant the workers of this user tokens for an MCP server, in a browser."""

from __future__ import annotations

import asyncio
import sys
import webbrowser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import parse_qs, urlsplit

import typer

from ..declared_tools import Connection, McpTool, Tool
from ..prompty.portable import is_reference
from ..text import one_line
from ..tools.mcp.declaration import OAuth, is_personal, oauth_of, problems_of
from . import shared_options as options
from .agent_file import load_agent
from .command import execute
from .console import answer, say
from .problems import DONE, Failure, UsageProblem

if TYPE_CHECKING:  # The SDK takes a second, and may not be installed.
    from mcp.shared.auth import AuthorizationCodeResult

PAGE = "HTTP/1.1 {0}\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n\r\n{1}\n"


def connect(
    server: Annotated[
        str,
        typer.Argument(metavar="SERVER", help="The server's URL, or an agent's file with servers of kind oauth."),
    ],
    tool: Annotated[str | None, typer.Option("--tool", metavar="NAME", help="Only this tool of the file.")] = None,
    client_id: Annotated[
        str | None, typer.Option("--client-id", metavar="ID", help="A client that is registered already.")
    ] = None,
    scopes: Annotated[
        list[str] | None, typer.Option("--scope", metavar="NAME", help="What to ask for; default: what it names.")
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port of 127.0.0.1 that the browser returns to.")
    ] = 0,
    browser: Annotated[bool, typer.Option(help="Open a browser; the address is printed in any case.")] = True,
    timeout: Annotated[float, typer.Option(min=1, help="How many seconds to wait for the browser.")] = 300.0,
    as_json: options.AsJson = False,
    log_level: options.LogLevel = None,
    log_format: options.LogFormat = None,
) -> None:
    """Grant workers tokens for an MCP server, in a browser.

    The tokens are kept in a file that only this user can read, in PERDURE_HOME, and never in a run. The workers of this
    user on this machine use them and renew them.
    """
    found = _of_url(server, client_id, scopes) if "://" in server else _of_file(Path(server), tool)
    execute(_connect_all(found, _Browser(port, browser, timeout), as_json=as_json))


def _of_url(url: str, client_id: str | None, scopes: list[str] | None) -> dict[str, OAuth]:
    connection = Connection(kind="oauth", endpoint=url, client_id=client_id, scopes=scopes)
    return {url: _oauth(McpTool(name="server", connection=connection), "SERVER")}


def _of_file(file: Path, tool: str | None) -> dict[str, OAuth]:
    declared = [each for each in load_agent(file).tools or () if tool in (None, each.name)]
    personal = [each for each in declared if _is_personal(each)]
    if not personal:
        raise UsageProblem(
            f"{str(file)!r} has no tool{f' {tool!r}' if tool else ''} that a person connects. Expected kind: mcp with "
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
            raise UsageProblem(f"{place}: {value} is not known here: set the variable, and type the command again")
    return oauth_of(connection)


async def _connect_all(found: dict[str, OAuth], browser: _Browser, *, as_json: bool) -> int:
    try:
        from ..tools.mcp.granting import grant
        from ..tools.mcp.oauth import OAuthProblem, Tokens
    except ModuleNotFoundError as error:
        raise Failure(f"kind: mcp needs the package mcp: pip install 'perdure[mcp]' ({error})") from None
    done: list[dict[str, Any]] = []
    for name, oauth in found.items():
        async with browser.redirect() as address:
            try:
                granted = await grant(oauth, address, browser.show, browser.receive)
            except OAuthProblem as error:
                raise Failure(f"{name}: not connected: {error}") from None
        renewed = granted.tokens.refresh_token is not None
        path = Tokens(oauth).path
        done.append({"server": oauth.endpoint, "file": str(path), "scope": granted.tokens.scope, "renewed": renewed})
        ends = "" if renewed else ". It gave nothing to renew it with: connect again when it has ended"
        say(f"{name}: connected. The token is in {path}{ends}", "good")
    if as_json:
        answer(done)
    return DONE


class _Browser:
    """Shows where to grant, and receives what comes back: at a port of this machine, or pasted into the terminal."""

    def __init__(self, port: int, opens: bool, seconds: float) -> None:
        self._port, self._opens, self._seconds = port, opens, seconds
        self._returned: asyncio.Future[dict[str, str]]

    @asynccontextmanager
    async def redirect(self) -> AsyncIterator[str]:
        """Yield the address that the browser is sent back to. Raises `Failure` for a port that is taken."""
        self._returned = asyncio.get_running_loop().create_future()
        try:
            server = await asyncio.start_server(self._serve, "127.0.0.1", self._port, limit=64 * 1024)
        except OSError as error:
            raise Failure(f"--port {self._port}: can't be listened to ({error.strerror}): choose another one") from None
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/callback"

    async def show(self, url: str) -> None:
        """Print the address, and open it."""
        say(f"Grant access in a browser:\n{url}")
        if self._opens and sys.stderr.isatty():
            await asyncio.to_thread(webbrowser.open, url)
        if sys.stdin.isatty():
            say("On another machine? Paste the address at which the browser ends (http://127.0.0.1…) here.", "faint")
            asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._read_line)

    async def receive(self) -> AuthorizationCodeResult:
        """Return what came back. Raises `Failure` where that is a refusal, or does not come."""
        from mcp.shared.auth import AuthorizationCodeResult

        try:
            async with asyncio.timeout(self._seconds):
                found = await self._returned
        except TimeoutError:
            raise Failure(f"nobody has granted access within {self._seconds:g} s (--timeout): type it again") from None
        finally:
            if sys.stdin.isatty():
                asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        if error := found.get("error"):
            why = one_line(f"{error}: {found.get('error_description', '')}".rstrip(": "), 300)
            raise Failure(f"not connected: access was not granted ({why})")
        return AuthorizationCodeResult(code=found.get("code", ""), state=found.get("state"), iss=found.get("iss"))

    def _read_line(self) -> None:
        self._take(sys.stdin.readline().strip())

    def _take(self, url: str) -> bool:
        parts = urlsplit(url)
        found = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        is_return = parts.path == "/callback" and bool(found.keys() & {"code", "error"})
        if is_return and not self._returned.done():
            self._returned.set_result(found)
        return is_return

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(10):
                line = (await reader.readline()).decode("latin-1").split(" ")
                while (await reader.readline()).strip():
                    pass
            is_return = line[0] == "GET" and len(line) == 3 and self._take(line[1])
            page = ("200 OK", "You may close this window.") if is_return else ("404 Not Found", "Nothing is here.")
            writer.write(PAGE.format(*page).encode())
            await writer.drain()
        except (OSError, ValueError, TimeoutError):
            return  # A browser that goes away, or something else that knocks.
        finally:
            writer.close()
