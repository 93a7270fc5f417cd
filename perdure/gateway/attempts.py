"""Requests without a key that lost their answer: a client's retry continues with the run of such a
request only.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable
from dataclasses import dataclass
from typing import TypeAlias

from cachetools import TTLCache
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

Piece: TypeAlias = str | bytes | memoryview
KEPT_SECONDS = 900.0
MAX_KEPT = 10_000
"""The number of attempts that a retry may continue; the oldest are dropped first."""


@dataclass(eq=False)
class Attempt:
    """One request that started a run."""

    run: str
    request: Request
    is_answered: bool = False
    """Whether its client was connected when the answer was sent."""

    async def is_lost(self) -> bool:
        """Return whether the client disconnected before the answer."""
        return not self.is_answered and await self.request.is_disconnected()

    async def whole(self, answer: Awaitable[Response]) -> Response:
        """Return the answer, or raise its error, and record whether the client is connected."""
        try:
            return await answer
        finally:
            self.is_answered = not await self.request.is_disconnected()

    def stream(self, response: StreamingResponse) -> StreamingResponse:
        """Return the response, which records that the client has read it to its end."""
        response.body_iterator = self._to_the_end(response.body_iterator)
        return response

    async def _to_the_end(self, pieces: AsyncIterable[Piece]) -> AsyncIterator[Piece]:
        async for piece in pieces:
            yield piece
        self.is_answered = True


class LostAnswers:
    """The attempts of this process, by digests of their requests. Each lost attempt serves one
    retry.
    """

    def __init__(self) -> None:
        self._known: TTLCache[str, list[Attempt]] = TTLCache(MAX_KEPT, KEPT_SECONDS)

    def note(self, digest: str, run: str, request: Request) -> Attempt:
        """Store an attempt."""
        attempt = Attempt(run, request)
        earlier = self._known.get(digest, [])
        self._known[digest] = [*(each for each in earlier if not each.is_answered), attempt]
        return attempt

    async def take_lost(self, digest: str) -> str | None:
        """Return the run of an equal request that lost its answer, once; None if there is none."""
        for attempt in list(self._known.get(digest, ())):
            if await attempt.is_lost() and attempt in self._known.get(digest, ()):
                self._known[digest].remove(attempt)
                return attempt.run
        return None
