"""Waits for a server that is away, and says so: a run goes on when its server is back, and so do those who watch it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import TypeVar

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

logger = logging.getLogger("perdure.waiting")
"""A warning when the server stops to answer, another when it answers again."""

CHECK_SECONDS = 2.0
"""An answer that takes longer raises the question whether the server is there."""
RETRY_SECONDS = 0.5
"""Between two requests that the server did not answer."""
_AWAY = (RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED)
_PERHAPS_AWAY = (RPCStatusCode.UNKNOWN, RPCStatusCode.INTERNAL)

Answer = TypeVar("Answer")


def is_away(error: RPCError) -> bool:
    """Whether nobody answered, rather than answered with an error."""
    if error.status in _PERHAPS_AWAY:
        return any(word in error.message for word in ("transport", "h2", "connection"))
    return error.status in _AWAY


class _Away(Exception):
    """Nobody answered."""


class Patience:
    """Asks a server until it answers, for as long as that takes."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._is_away = False

    async def __call__(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """What `ask` returns or raises, once the server has answered; until then it is called again and again."""
        async with self._looking():
            while True:
                with suppress(_Away):
                    return await self._try(ask)
                await asyncio.sleep(RETRY_SECONDS)

    async def _try(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        try:
            answer = await ask()
        except RPCError as error:
            if not is_away(error):
                raise
            self._note(is_away=True)
            raise _Away from error
        self._note(is_away=False)
        return answer

    @asynccontextmanager
    async def _looking(self) -> AsyncIterator[None]:
        """While the block waits, look now and then whether the server is there: a request only says so in the end."""
        looking: asyncio.Task[None] | None = None

        def begin() -> None:
            nonlocal looking
            looking = asyncio.create_task(self._look())

        timer = asyncio.get_running_loop().call_later(CHECK_SECONDS, begin)
        try:
            yield
        finally:
            timer.cancel()
            if looking is not None:
                looking.cancel()

    async def _look(self) -> None:
        while True:
            try:
                await self._client.service_client.check_health(timeout=timedelta(seconds=CHECK_SECONDS))
            except RPCError as error:
                # A server that knows no such request has answered it.
                self._note(is_away=is_away(error))
            else:
                self._note(is_away=False)
            await asyncio.sleep(CHECK_SECONDS)

    def _note(self, *, is_away: bool) -> None:
        """Say so when it has gone or come back; each once."""
        if is_away == self._is_away:
            return
        self._is_away = is_away
        address = self._client.service_client.config.target_host
        if is_away:
            logger.warning("the server at %s does not answer; waiting", address)
        else:
            logger.warning("the server at %s answers again", address)
