"""Relays a caller's cancellation and steering messages to the run that the caller awaits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from temporalio.service import RPCError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from ..errors import PayloadTooLargeError, RunNotFound
from .handle import RunHandle
from .reading.patience import RETRY_SECONDS, is_away
from .tokens import CancellationToken, Steering

logger = logging.getLogger("perdure")


class Relay:
    """Tells one run what its caller says through a token and a steering object, in the order in which it was said.

    What the run does not take goes back into the steering object, when the run has ended.
    """

    def __init__(self, cancel: CancellationToken | None, steering: Steering | None) -> None:
        self._cancel = cancel or CancellationToken()
        self._steering = steering or Steering()
        self._run: RunHandle | None = None
        self._has_cancelled = False
        self._refused: list[str] = []
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def to(self, run: RunHandle) -> AsyncIterator[None]:
        """Within it, the run is told what is said, and first of all what was said before.

        Entered on the event loop of those that call `flush`.
        """
        self._run = run
        loop, rung = asyncio.get_running_loop(), asyncio.Event()

        def ring() -> None:
            # The loop may be closed when somebody cancels or steers long after the call has returned.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(rung.set)

        await self.flush()
        relay = asyncio.create_task(self._flush_at(rung))
        self._cancel.listen(ring)
        self._steering.listen(ring)
        try:
            yield
        finally:
            self._cancel.forget(ring)
            self._steering.listen(None)
            await self._end(relay)

    async def flush(self) -> None:
        """When this returns, the run has been told all that was said before the call."""
        async with self._lock:
            while self._run and not await self._told(self._run):
                await asyncio.sleep(RETRY_SECONDS)

    async def _flush_at(self, rung: asyncio.Event) -> None:
        while True:
            await rung.wait()
            rung.clear()
            await self.flush()

    async def _end(self, relay: asyncio.Task[None]) -> None:
        self._run = None
        async with self._lock:  # What is under way arrives, or comes back.
            relay.cancel()
        with suppress(asyncio.CancelledError):
            await relay
        self._steering.put_back(self._refused)

    async def _told(self, run: RunHandle) -> bool:
        """Tell the run what there is to tell; False when the server is away, and it is worth another try."""
        texts = self._steering.drain()
        try:
            await self._steer(run, texts)
            if self._cancel.is_cancelled and not self._has_cancelled:
                await run.cancel("the caller's CancellationToken")
                self._has_cancelled = True
        except RunNotFound:
            logger.info("the run %s has ended: what was said came too late", run.id)
            self._run = None
        except RPCError as error:
            logger.warning("the run %s could not be told what was said: %s", run.id, error)
            return not is_away(error)
        finally:
            self._steering.put_back(texts)
        return True

    async def _steer(self, run: RunHandle, texts: list[str]) -> None:
        """Send the texts as one message, and empty the list of those that need not be sent again."""
        try:
            if texts:
                await run.steer(texts)
        except PayloadTooLargeError as error:
            if len(texts) > 1:
                while texts:
                    await self._steer(run, texts[:1])
                    del texts[0]
                return
            logger.error("a steering message for the run %s was not sent: %s", run.id, error)
            self._refused += texts
        texts.clear()


class Flushing(Interceptor):
    """Makes a worker await `flush` before each activity completes: the run learns of its end after what was said."""

    def __init__(self, flush: Callable[[], Awaitable[None]]) -> None:
        self._flush = flush

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _FlushingActivity(next, self._flush)


class _FlushingActivity(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, flush: Callable[[], Awaitable[None]]) -> None:
        super().__init__(next)
        self._flush = flush

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        try:
            return await self.next.execute_activity(input)
        finally:
            await self._flush()
