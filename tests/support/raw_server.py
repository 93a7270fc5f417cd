"""A server on loopback that answers with bytes as they are given, and keeps what it was sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class RawServer:
    """One answer for each path; the connection ends with it."""

    def __init__(self) -> None:
        self.answers: dict[str, bytes] = {}
        self.requests: list[str] = []
        """Heads of requests, with their bodies."""
        self.url = ""

    def lines(self) -> list[str]:
        """The first lines of the requests."""
        return [each.partition("\r\n")[0] for each in self.requests]

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            size = next(
                (
                    int(line[15:])
                    for line in head.split("\r\n")
                    if line.lower().startswith("content-length:")
                ),
                0,
            )
            self.requests.append(head + (await reader.readexactly(size)).decode("latin-1"))
            path = head.split(" ")[1].partition("?")[0]
            answer = self.answers.get(path, ok(b'{"ok":true}'))
            writer.write(answer)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # The caller has gone: some tests want that.
        finally:
            writer.close()


def ok(
    body: bytes, *headers: str, media: str = "application/json", status: str = "200 OK"
) -> bytes:
    """An answer; the body ends with the connection."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {media}", *headers, "Connection: close", "", ""]
    return "\r\n".join(lines).encode() + body


def redirect(location: str, status: str = "302 Found") -> bytes:
    return ok(b"", f"Location: {location}", status=status)


@asynccontextmanager
async def raw_server() -> AsyncIterator[RawServer]:
    """One on a free port, for as long as the block runs."""
    raw = RawServer()
    server = await asyncio.start_server(raw.handle, "127.0.0.1", 0)
    raw.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield raw
    finally:
        server.close()
        await server.wait_closed()
