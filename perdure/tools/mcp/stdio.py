"""Runs an MCP server as a process, by the SDK, and logs what it writes to stderr."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcp.client._transport import TransportStreams
from mcp.client.stdio import StdioServerParameters, stdio_client

from ...redaction import get_logger
from ...text import one_line, visible
from .declaration import Server

_LAST_LINES = 5
_LONGEST_LINE = 2000
_log = get_logger("perdure.tools.mcp")
logging.getLogger("mcp.client.stdio").setLevel(
    logging.CRITICAL
)  # It logs a traceback for each line that is not a message.


class ServerProcess:
    """One process of a server."""

    def __init__(self, server: Server, title: str) -> None:
        self._parameters = StdioServerParameters(
            command=server.command, args=list(server.args), env=dict(server.env), cwd=server.cwd
        )
        self._title = title
        self._last: deque[str] = deque(maxlen=_LAST_LINES)

    @property
    def report(self) -> str:
        """Its last lines on stderr, such as `it wrote: no such folder`; "" without any."""
        return f"it wrote: {one_line(' / '.join(self._last), 500)}" if self._last else ""

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[TransportStreams]:
        """Start the process, and end it after the block. Raises OSError or ValueError if it can't
        be started.
        """
        ours, theirs = os.pipe()
        reader = asyncio.StreamReader()
        with os.fdopen(theirs, "w") as errors:
            pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours, "rb", 0)
            )
            listening = asyncio.create_task(self._listen(reader))
            try:
                async with stdio_client(self._parameters, errors) as streams:
                    yield streams
            finally:
                listening.cancel()
                pipe.close()

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        begun = b""
        while chunk := await reader.read(2**16):
            *lines, begun = (begun + chunk).split(b"\n")
            begun = begun[:_LONGEST_LINE]
            for line in lines:
                text = visible(line[:_LONGEST_LINE].decode(errors="replace").rstrip())
                self._last.append(text)
                _log.info("MCP server %r: %s", self._title, text)
