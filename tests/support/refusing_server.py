"""A gRPC server on loopback that refuses each call but the first of a connection, by which
Temporal's SDK connects.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

OK, PERMISSION_DENIED = 0, 7
"""Statuses of gRPC."""
_PREFACE = len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
_DATA, _HEADERS, _SETTINGS, _PING, _ACK, _END_OF_STREAM, _END_OF_HEADERS = 0, 1, 4, 6, 1, 1, 4


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return (
        len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload
    )


def fields(**values: str) -> bytes:
    """Return headers as literals that are not indexed."""
    pairs = [(name.replace("_", "-"), value) for name, value in values.items()]
    return b"".join(
        b"\x00" + b"".join(bytes([len(word)]) + word.encode() for word in pair) for pair in pairs
    )


_STATUS_200 = b"\x88"
_BEGINNING = _STATUS_200 + fields(content_type="application/grpc")


def empty_answer(stream: int) -> bytes:
    end = frame(_HEADERS, _END_OF_STREAM | _END_OF_HEADERS, stream, fields(grpc_status=str(OK)))
    return (
        frame(_HEADERS, _END_OF_HEADERS, stream, _BEGINNING)
        + frame(_DATA, 0, stream, bytes(5))
        + end
    )


def refusal(stream: int, status: int, message: str) -> bytes:
    told = fields(grpc_status=str(status), grpc_message=message)
    return frame(_HEADERS, _END_OF_STREAM | _END_OF_HEADERS, stream, _BEGINNING + told)


async def _serve(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, refused: Callable[[int], bytes]
) -> None:
    answer: Callable[[int], bytes] = empty_answer
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        await reader.readexactly(_PREFACE)
        writer.write(frame(_SETTINGS, 0, 0))
        while True:
            head = await reader.readexactly(9)
            kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big")
            payload = await reader.readexactly(int.from_bytes(head[:3], "big"))
            if kind in (_SETTINGS, _PING) and not flags & _ACK:
                writer.write(frame(kind, _ACK, 0, payload if kind == _PING else b""))
            if kind == _HEADERS:
                writer.write(answer(stream))
                answer = refused
    writer.close()


@asynccontextmanager
async def refusing_server(
    status: int = PERMISSION_DENIED, message: str = "Request unauthorized."
) -> AsyncIterator[str]:
    """Serve while the block runs, and refuse with this status of gRPC; gives the address."""
    refused = partial(refusal, status=status, message=message)
    server = await asyncio.start_server(partial(_serve, refused=refused), "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
