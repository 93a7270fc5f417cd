"""The steps of `perdure connect`: shows the address at which a person grants access, and receives
the answer.
"""

from __future__ import annotations

import asyncio
import sys
import webbrowser
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

from mcp.shared.auth import AuthorizationCodeResult

from ..json_types import JsonObject
from ..text import one_line
from ..tools.mcp.declaration import OAuth
from ..tools.mcp.granting import grant
from ..tools.mcp.oauth import OAuthProblem, TokenStore
from .console import answer, say
from .problems import DONE, Failure

PAGE = "HTTP/1.1 {0}\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n\r\n{1}\n"


async def connect_all(found: Mapping[str, OAuth], browser: Browser, *, as_json: bool) -> int:
    """Connect to these servers, by display name; return the exit code. Raises `Failure`."""
    done: list[JsonObject] = []
    for name, oauth in found.items():
        async with browser.redirect() as address:
            try:
                granted = await grant(oauth, address, browser.show, browser.receive)
            except OAuthProblem as error:
                raise Failure(f"{name}: not connected: {error}") from None
        renewed = granted.tokens.refresh_token is not None
        path = TokenStore(oauth).path
        done.append(
            {
                "server": oauth.endpoint,
                "file": str(path),
                "scope": granted.tokens.scope,
                "renewed": renewed,
            }
        )
        ends = (
            "" if renewed else ". The server gave no refresh token: connect again when it expires"
        )
        say(f"{name}: connected. The token is in {path}{ends}", "good")
    if as_json:
        answer(done)
    return DONE


class Browser:
    """Shows the address for the grant, and receives the answer: at a local port, or pasted into the
    terminal.
    """

    def __init__(self, port: int, opens: bool, seconds: float) -> None:
        self._port, self._opens, self._seconds = port, opens, seconds
        self._returned: asyncio.Future[dict[str, str]]

    @asynccontextmanager
    async def redirect(self) -> AsyncIterator[str]:
        """Yield the address to which the browser is redirected. Raises `Failure` for a port that is
        taken.
        """
        self._returned = asyncio.get_running_loop().create_future()
        try:
            server = await asyncio.start_server(
                self._serve, "127.0.0.1", self._port, limit=64 * 1024
            )
        except OSError as error:
            raise Failure(
                f"--port {self._port}: can't be used ({error.strerror}): choose another one"
            ) from None
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/callback"

    async def show(self, url: str) -> None:
        """Print the address, and open it."""
        say(f"Grant access in a browser:\n{url}")
        if self._opens and sys.stderr.isatty():
            await asyncio.to_thread(webbrowser.open, url)
        if sys.stdin.isatty():
            say(
                "On another machine? Paste the address at which the browser ends "
                "(http://127.0.0.1…) here.",
                "faint",
            )
            asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._read_line)

    async def receive(self) -> AuthorizationCodeResult:
        """Return the answer. Raises `Failure` for a refusal, or without an answer."""
        try:
            async with asyncio.timeout(self._seconds):
                found = await self._returned
        except TimeoutError:
            raise Failure(
                f"access was not granted within {self._seconds:g} s (--timeout): type it again"
            ) from None
        finally:
            if sys.stdin.isatty():
                asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        if error := found.get("error"):
            why = one_line(f"{error}: {found.get('error_description', '')}".rstrip(": "), 300)
            raise Failure(f"not connected: access was not granted ({why})")
        return AuthorizationCodeResult(
            code=found.get("code", ""), state=found.get("state"), iss=found.get("iss")
        )

    def _read_line(self) -> None:
        self._receive_callback(sys.stdin.readline().strip())

    def _receive_callback(self, url: str) -> bool:
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
            is_return = line[0] == "GET" and len(line) == 3 and self._receive_callback(line[1])
            page = (
                ("200 OK", "You may close this window.")
                if is_return
                else ("404 Not Found", "Nothing is here.")
            )
            writer.write(PAGE.format(*page).encode())
            await writer.drain()
        except (OSError, ValueError, TimeoutError):
            return  # The browser closed the connection, or another program connected.
        finally:
            writer.close()
