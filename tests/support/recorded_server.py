"""A loopback HTTP server that gives recorded bytes, and keeps what it received."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from perdure.json_types import JsonObject

_DROPPED = (asyncio.IncompleteReadError, ConnectionError)


@dataclass(frozen=True)
class Recorded:
    """One answer, byte for byte."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    ending: Literal["complete", "drop", "hang"] = "complete"
    """What follows the body: its end, a lost connection, or nothing for ever."""
    piece: int = 0
    """Send the body in pieces of so many bytes; 0 sends it at once."""
    head: bytes | None = None
    """What is sent before the body, in place of a head."""

    @classmethod
    def of_json(cls, value: Any, status: int = 200, **more: Any) -> Recorded:
        return cls(json.dumps(value).encode(), status=status, **more)

    @classmethod
    def of_stream(cls, body: bytes, **more: Any) -> Recorded:
        return cls(body, content_type="text/event-stream", **more)


@dataclass(frozen=True)
class Received:
    path: str
    headers: dict[str, str]
    body: JsonObject


class RecordedServer:
    """Answers the requests in turn; the last answer is given again and again."""

    def __init__(self) -> None:
        self.url = ""
        self._writers: set[asyncio.StreamWriter] = set()
        self.forget()

    def forget(self) -> None:
        """Starts anew, for the next test."""
        self.received: list[Received] = []
        self.connections = 0
        """So many were opened."""
        self.client_left = asyncio.Event()
        """Set when a client goes away while its answer hangs."""
        self._answers: list[Recorded] = []

    def answers(self, *answers: Recorded) -> None:
        self._answers = list(answers)

    def answer_to(self, request: Received) -> Recorded:
        """The next answer; a subclass may choose another one."""
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    @property
    def last(self) -> Received:
        return self.received[-1]

    def close(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while await self._exchange(reader, writer):
                pass
        except _DROPPED:
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        request = await _read(reader)
        self.received.append(request)
        answer = self.answer_to(request)
        for piece in _pieces(answer):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        if answer.ending == "hang":
            await reader.read()
            self.client_left.set()
        return answer.ending == "complete"


@asynccontextmanager
async def recorded_server(recorded: RecordedServer | None = None) -> AsyncIterator[RecordedServer]:
    recorded = recorded or RecordedServer()
    server = await asyncio.start_server(recorded.connected, "127.0.0.1", 0, limit=2**24)
    recorded.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield recorded
    server.close()
    recorded.close()
    await asyncio.sleep(0.01)


async def _read(reader: asyncio.StreamReader) -> Received:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().rstrip().split("\r\n")
    headers = {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Received(first.split()[1], headers, json.loads(body or b"{}"))


def _pieces(answer: Recorded) -> Sequence[bytes]:
    if answer.head is not None:
        return [answer.head + answer.body]
    lines = [
        f"HTTP/1.1 {answer.status} Recorded",
        f"content-type: {answer.content_type}",
        "transfer-encoding: chunked",
    ]
    lines += [f"{name}: {value}" for name, value in answer.headers.items()]
    size = answer.piece or max(len(answer.body), 1)
    cuts = [answer.body[start : start + size] for start in range(0, len(answer.body), size)]
    chunks = [f"{len(cut):x}\r\n".encode() + cut + b"\r\n" for cut in cuts]
    end = [b"0\r\n\r\n"] if answer.ending == "complete" else []
    return ["\r\n".join([*lines, "", ""]).encode(), *chunks, *end]
