"""The end of a gateway: what is open may finish for a while, then says where to go on, and what comes is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import TypeVar

from .problems import HttpProblem

T = TypeVar("T")
ANSWER_SECONDS = 1.0
"""So long a request has for its last words."""


class GatewayEnds(HttpProblem):
    """This process ends: whoever is at the address next has the answer."""

    def __init__(self) -> None:
        super().__init__(
            503,
            "ending",
            "this gateway is stopping; its runs continue. Send the request again",
            headers={"Retry-After": "1", "Connection": "close"},
        )


class OpenRequests:
    """What is open in this process, and its end."""

    def __init__(self) -> None:
        self.has_begun = False
        """Whether requests that come are refused."""
        self.waits = _Cuts()
        """What requests wait for: each says in its protocol's words where to go on once that is cut."""
        self.requests = _Cuts()

    async def end(self, seconds: float) -> None:
        """Refuse what comes, and return when nothing is open: after `seconds` waits are cut, then what is left."""
        self.has_begun = True
        await self.requests.are_over(seconds)
        self.waits.cut()
        await self.requests.are_over(ANSWER_SECONDS)
        self.requests.cut()
        await self.requests.are_over(ANSWER_SECONDS)


class _Cuts:
    """Blocks that may be cut, all at once."""

    def __init__(self) -> None:
        self._is_cut = False
        self._open: set[asyncio.Timeout] = set()

    @asynccontextmanager
    async def limit(self) -> AsyncIterator[None]:
        """Run a block until it is cut. Raises `GatewayEnds` then."""
        if self._is_cut:
            raise GatewayEnds
        try:
            async with asyncio.timeout(None) as timer:
                self._open.add(timer)
                try:
                    yield
                finally:
                    self._open.discard(timer)
        except TimeoutError:
            if not timer.expired():
                raise
            raise GatewayEnds from None

    async def until_cut(self, events: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
        """Yield the events, which are closed then. Raises `GatewayEnds` once they are cut."""
        async with aclosing(events):
            while found := await self._next(events):
                yield found[0]

    async def _next(self, events: AsyncGenerator[T, None]) -> list[T]:
        """Return the next event; [] after the last."""
        async with self.limit():
            try:
                return [await anext(events)]
            except StopAsyncIteration:
                return []

    def cut(self) -> None:
        """Cut the blocks, and those that come."""
        self._is_cut = True
        for timer in self._open:
            timer.reschedule(0.0)

    async def are_over(self, seconds: float) -> None:
        """Return when no block is open, or after so many seconds."""
        end = asyncio.get_running_loop().time() + seconds
        while self._open and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0.05)
