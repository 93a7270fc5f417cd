"""Reads one stream: from bytes to events, and from events to the response that they make up.

The end of OpenAI's streams, `[DONE]`: https://platform.openai.com/docs/api-reference/chat-streaming
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, TypeVar

from ..valid_text import TextPieces, valid_json
from .base import Delta, StreamAssembler
from .errors import UNEXPECTED_FORMAT
from .sse import EventDecoder
from .unexpected import UnexpectedFormatError, shown

T = TypeVar("T")

ENVELOPES = 16
"""A stream may have so many times the bytes of its answer: each event of a few characters is wrapped in hundreds."""
_END = "[DONE]"
_MAY_HOLD_HALVES = re.compile("\\\\u[dD][89a-fA-F]|[\ud800-\udfff]")


class TooLargeError(Exception):
    """The answer is larger than it may be."""


class StreamReader:
    """Feeds an assembler with the events of one response; `on_delta` sees each piece of the answer, its text valid.

    Characters that are cut in two, between events, are joined.
    """

    def __init__(self, assembler: StreamAssembler, on_delta: Callable[[Delta], None], max_bytes: int) -> None:
        self._assembler = assembler
        self._on_delta = on_delta
        self._max_bytes = max_bytes
        self._size = 0
        self._pieces: dict[str, TextPieces] = defaultdict(TextPieces)
        self._may_hold_halves = False

    async def read(self, response: Any) -> None:
        """Read to the end. A connection that is lost after the end of the answer does not matter.

        Raises TooLargeError, ModelError for a failure that the provider reports, ValueError for what is no event of
        the API, and what the HTTP client raises.
        """
        import httpx2

        try:
            async with aclosing(response.aiter_bytes()) as unpacked:
                await self._take(unpacked)
        except httpx2.TransportError:
            if not (self._assembler.is_complete or self._assembler.refusal):
                raise

    def response(self) -> dict[str, Any]:
        """What the assembler has put together. Raises ValueError when that is no response of the API."""
        response = _understood(self._assembler.response, "a stream whose events make up no answer")
        return valid_json(response) if self._may_hold_halves else response

    async def _take(self, unpacked: AsyncIterator[bytes]) -> None:
        decoder = EventDecoder()
        async for chunk in unpacked:
            for data in decoder.feed(chunk):
                self._add(data)
            await self._count(len(chunk), decoder.pending)

    async def _count(self, chunk: int, pending: int) -> None:
        self._size += chunk
        if max(self._assembler.size, pending, self._size // ENVELOPES) > self._max_bytes:
            raise TooLargeError
        # A few compressed bytes can unpack to a chunk after the other, without a moment for anything else.
        await asyncio.sleep(0)

    def _add(self, data: str) -> None:
        if data == _END:
            self._assembler.is_complete = True
            return
        event = json.loads(data)
        if not isinstance(event, dict):
            raise UnexpectedFormatError(f"the event {shown(event)}")
        self._may_hold_halves = self._may_hold_halves or bool(_MAY_HOLD_HALVES.search(data))
        for delta in _understood(lambda: self._deltas(event), event):
            self._on_delta(delta)

    def _deltas(self, event: dict[str, Any]) -> list[Delta]:
        deltas = self._assembler.add(event)
        if self._assembler.refusal:
            return []
        if self._may_hold_halves:
            deltas = [Delta(delta.kind, self._pieces[delta.kind].add(delta.text)) for delta in deltas]
        if not all(isinstance(delta.text, str) for delta in deltas):
            raise TypeError(UNEXPECTED_FORMAT)
        return [delta for delta in deltas if delta.text]


def _understood(read: Callable[[], T], got: str | dict[str, Any]) -> T:
    """The value of `read`. Raises UnexpectedFormatError when the provider sent something that its API does not have."""
    try:
        return read()
    except (LookupError, TypeError, AttributeError) as error:
        raise UnexpectedFormatError(got if isinstance(got, str) else f"the event {shown(got)}") from error
