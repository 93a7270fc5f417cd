"""Shuts a gateway down: open requests may finish for a while, then point to where to continue; new
ones are refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import TypeVar

from .problems import HttpProblem

T = TypeVar("T")
ANSWER_SECONDS = 1.0
"""Seconds for a request's last output."""


class GatewayEnds(HttpProblem):
    """This process is ending: the next process at the address has the answer."""

    def __init__(self) -> None:
        super().__init__(
            503,
            "ending",
            "this gateway is stopping; its runs continue. Send the request again",
            headers={"Retry-After": "1", "Connection": "close"},
        )


class OpenRequests:
    """The open requests of this process, and its shutdown."""

    def __init__(self) -> None:
        self.has_begun = False
        """Whether new requests are refused."""
        self.waits = _Cuts()
        """The waits of requests: once cut, each request names the place to continue in its
        protocol's form."""
        self.requests = _Cuts()

    async def end(self, seconds: float) -> None:
        """Refuse new requests, and return when none is open. After `seconds`, cut the waits, then
        the remaining requests.
        """
        self.has_begun = True
        await self.requests.are_over(seconds)
        self.waits.cut()
        await self.requests.are_over(ANSWER_SECONDS)
        self.requests.cut()
        await self.requests.are_over(ANSWER_SECONDS)


class _Cuts:
    """Blocks that can be cut, all at once."""

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
        """Yield the events, and close their iterator at the end. Raises `GatewayEnds` once they are
        cut.
        """
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
        """Cut the current and all later blocks."""
        self._is_cut = True
        for timer in self._open:
            timer.reschedule(0.0)

    async def are_over(self, seconds: float) -> None:
        """Return when no block is open, or after that many seconds."""
        end = asyncio.get_running_loop().time() + seconds
        while self._open and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0.05)
