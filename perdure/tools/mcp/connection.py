"""Connections to MCP servers: one for each server, credentials and event loop, each in its own
task.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from threading import Lock
from weakref import WeakKeyDictionary

import mcp
from mcp import types
from mcp.client.streamable_http import streamable_http_client
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from ..._version import __version__
from ...redaction import get_logger
from ...text import count_of, one_line
from ..http import Fault
from .declaration import MAX_MESSAGE_BYTES, Server
from .http import HostClient, fault_of, forgets_session
from .progress import with_few_reports
from .stdio import ServerProcess

CLOSE_SECONDS = 4.5
PROBE_SECONDS = 5.0
"""Seconds that a server has to show whether it still knows a session."""
_NO_TRANSPORT = frozenset({400, 404, 405, 406, 415})
"""Statuses with which a server refuses streamable HTTP, not its caller."""
_OLD_TRANSPORT = (
    " (a server that has only the older transport, HTTP+SSE, needs a bridge, such as mcp-proxy)"
)
for _name in (
    "client.streamable_http",
    "client.session",
    "client.client",
    "shared.jsonrpc_dispatcher",
):
    get_logger(f"mcp.{_name}")  # Removes secrets from their lines.
get_logger("httpx2")


class NotConnected(Exception):
    """There is no connection to the server; the text has the reason. Nothing was executed."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status
        """The HTTP status with which the server refused it."""


class McpConnection:
    """A connection, open until it breaks or is idle for a while, or until `retire` or `close`.

    It is entered and left in one task: when it breaks, that task is cancelled. Calls come from
    other tasks.
    """

    def __init__(self, server: Server, title: str, idle_seconds: float) -> None:
        self._server = server
        self._idle_seconds = idle_seconds
        self._loop = asyncio.get_running_loop()
        self._ending = asyncio.Event()
        self._opened: asyncio.Future[mcp.Client] = self._loop.create_future()
        self._title = title
        self._process: ServerProcess | None = None
        self._error: BaseException | None = None
        self._has_ended = False
        """Whether the server has stopped sending messages."""
        self._users = 0
        self._is_retired = False
        self._used_at = self._loop.time()
        self._owner = self._loop.create_task(
            self._own(), name=f"MCP server {title}", context=contextvars.Context()
        )

    @property
    def is_usable(self) -> bool:
        """Return whether calls may begin; also true while it is being opened."""
        return not self._is_retired and not self._ending.is_set() and not self._owner.done()

    @property
    def report(self) -> str:
        """The last lines that the server's process has written, if any; else ""."""
        return self._process.report if self._process else ""

    async def is_forgotten(self) -> bool:
        """Return whether the server refuses a basic request in this session."""
        if not self.is_usable or not self._server.endpoint:
            return bool(self._server.endpoint)  # Another call has detected it.
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await self._opened.result().list_tools()
        except mcp.MCPError as error:
            fault = fault_of(error)
            return fault.is_session_over if fault else forgets_session(error.error)
        except (TimeoutError, ValueError, RuntimeError):
            return False  # It does not refuse, so the session is not the problem.
        return False

    async def client(self, seconds: float) -> mcp.Client:
        """Return the client once it is connected. Raises NotConnected after that time."""
        done, _ = await asyncio.wait([self._opened], timeout=seconds)
        if not done:
            self.close()
            wrote = self.report and f"; {self.report}"
            raise NotConnected(f"it does not answer within {count_of(seconds, 'second')}{wrote}")
        return self._opened.result()

    @contextmanager
    def use(self) -> Iterator[None]:
        """Mark the connection as in use while the block runs."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            self._used_at = self._loop.time()
            if self._is_retired and not self._users:
                self.close()

    def retire(self) -> None:
        """Accept no more calls, and end after the current ones."""
        self._is_retired = True

    def close(self) -> None:
        """Begin to end it; `wait_until_closed` waits for the end."""
        self._ending.set()
        if not self._opened.done():
            self._owner.cancel()

    async def wait_until_closed(self) -> None:
        """Wait until it has ended, for at most `CLOSE_SECONDS`."""
        await asyncio.wait([self._owner], timeout=CLOSE_SECONDS)

    async def _own(self) -> None:
        try:
            await self._serve("auto")
            if self._server.command and self._has_ended and not self._opened.done():
                await self._serve("legacy")  # An old server may end when asked for its version.
        finally:
            self._ending.set()
            self._fail(self._error or NotConnected("the connection was closed"))

    async def _serve(self, mode: str) -> None:
        """Connect, and stay until the end. Raises nothing; stores errors."""
        self._has_ended = False
        try:
            async with self._client(mode) as client:
                # A tool's answer is for the model to judge: the SDK would drop an answer that does
                # not fit the tool's own schema, and evaluate any patterns that the server has
                # written there.
                client.session.validate_tool_result = _accept  # type: ignore[method-assign]
                self._used_at = self._loop.time()
                self._opened.set_result(client)
                await self._wait_until_idle()
        except BaseException as error:
            # Also CancelledError: a connection that breaks cancels its task.
            self._error = error
            if isinstance(error, asyncio.CancelledError):
                self._fail(error)

    @asynccontextmanager
    async def _client(self, mode: str) -> AsyncIterator[mcp.Client]:
        async with AsyncExitStack() as stack:
            if self._server.command:
                self._process = ServerProcess(self._server, self._title)
                transport = self._process.streams()
            else:
                http = await stack.enter_async_context(HostClient(self._server))
                transport = streamable_http_client(
                    self._server.endpoint, http_client=http, max_sse_event_size=MAX_MESSAGE_BYTES
                )
            few = with_few_reports(transport, self._hear_end)
            yield await stack.enter_async_context(
                _Client(few, mode=mode, client_info=_info(), cache=None)
            )

    def _hear_end(self) -> None:
        self._has_ended = True
        if self._opened.done():
            self._ending.set()

    async def _wait_until_idle(self) -> None:
        while not self._ending.is_set():
            left = self._used_at + self._idle_seconds - self._loop.time()
            if left <= 0 and not self._users:
                self._ending.set()
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(left if left > 0 else self._idle_seconds):
                    await self._ending.wait()

    def _fail(self, error: BaseException) -> None:
        if not self._opened.done():
            status = fault.status if (fault := _fault_in(error)) else 0
            failed = (
                error if isinstance(error, NotConnected) else NotConnected(self._why(error), status)
            )
            self._opened.set_exception(failed)
            # Marks the exception as retrieved, since there may be no waiter.
            self._opened.exception()

    def _why(self, error: BaseException) -> str:
        error = _cause(error)
        if isinstance(error, OSError):
            return f"it can't be started: {error}"
        if self._has_ended and self._process:
            return "; ".join(filter(None, ["its process ended", self.report]))
        if not isinstance(error, mcp.MCPError):
            return one_line(f"{type(error).__name__}: {error}", 500)
        if (fault := fault_of(error)) is None:
            return f"it refuses to connect: {one_line(error.message, 500)}"
        return fault.text + (_OLD_TRANSPORT if fault.status in _NO_TRANSPORT else "")


def _cause(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _fault_in(error: BaseException) -> Fault | None:
    cause = _cause(error)
    return fault_of(cause) if isinstance(cause, mcp.MCPError) else None


def _info() -> types.Implementation:
    return types.Implementation(name="perdure", version=__version__)


class _Client(mcp.Client):
    """Reports to servers of the protocol's newer form that a person can answer questions: there, a
    question ends the call.

    In the older form, servers ask in the middle of a call, whose connection would have to outlive
    the worker.
    """

    async def _build_session(self, exit_stack: AsyncExitStack) -> mcp.ClientSession:
        session = await super()._build_session(exit_stack)
        build = session._build_capabilities

        def capabilities(version: str) -> types.ClientCapabilities:
            found = build(version)
            if version in MODERN_PROTOCOL_VERSIONS:
                form, url = types.FormElicitationCapability(), types.UrlElicitationCapability()
                found.elicitation = types.ElicitationCapability(form=form, url=url)
            return found

        session._build_capabilities = capabilities  # type: ignore[method-assign]
        return session


async def _accept(name: str, result: types.CallToolResult) -> None:
    """Accept any answer."""


class Pool:
    """Opens connections on demand, and again after they break. Usable on several event loops."""

    def __init__(self, idle_seconds: float) -> None:
        self._idle_seconds = idle_seconds
        self._lock = Lock()
        self._connections: WeakKeyDictionary[
            asyncio.AbstractEventLoop, dict[Server, McpConnection]
        ] = WeakKeyDictionary()

    def connection(self, server: Server, title: str) -> McpConnection:
        """Return this event loop's connection to the server, which may still be opening."""
        loop = asyncio.get_running_loop()
        with self._lock:
            connections = self._connections.setdefault(loop, {})
        if (known := connections.get(server)) is not None and known.is_usable:
            return known
        for ended in [each for each, connection in connections.items() if not connection.is_usable]:
            del connections[ended]
        connections[server] = McpConnection(server, title, self._idle_seconds)
        return connections[server]

    async def close(self) -> None:
        """Close all connections; those of this event loop before returning."""
        with self._lock:
            everything = list(self._connections.items())
            self._connections.clear()
        for loop, connections in everything:
            if loop is asyncio.get_running_loop():
                for connection in connections.values():
                    connection.close()
                await asyncio.gather(
                    *(connection.wait_until_closed() for connection in connections.values())
                )
            elif not loop.is_closed():
                for connection in connections.values():
                    loop.call_soon_threadsafe(connection.close)
