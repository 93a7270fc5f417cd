"""Streams of frames that live through proxies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from perdure.gateway.sse import COMMENT, with_keepalives

SIZE = 64 * 1024


async def test_an_error_comes_after_what_was_there() -> None:
    async def frames() -> AsyncGenerator[bytes, None]:
        yield b"a"
        yield b"b"
        await asyncio.sleep(0.05)
        yield b"c"
        raise OSError("gone")

    sent: list[bytes] = []

    async def read() -> None:
        async for each in with_keepalives(frames()):
            sent.append(each)

    with pytest.raises(OSError, match="gone"):
        await read()
    assert sent == [b"a", b"b", b"c"]


async def test_a_silent_stream_has_comments_and_a_slow_client_is_waited_for() -> None:
    made = 0

    async def frames() -> AsyncGenerator[bytes, None]:
        nonlocal made
        await asyncio.sleep(0.1)
        for _ in range(8):
            made += 1
            yield b"x" * (SIZE // 2)

    stream = with_keepalives(frames(), silence=0.02)
    assert [await anext(stream) for _ in range(2)] == [COMMENT, COMMENT]
    rest = b""
    async for each in stream:
        rest += each
        await asyncio.sleep(0.01)
        assert made <= rest.count(b"x") // (SIZE // 2) + 3
    assert rest.count(b"x") == 4 * SIZE
