"""Follows a run live by its history's growth, and waits for a server that is away. The run does no work for it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import TypeVar

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from ...events import RunEvent
from ...history.chain import Chain
from ...history.events import CLOSING_EVENTS
from ...protocol.activities import STREAM_SECONDS
from .events import Cursor, LiveState, listen
from .log import RunLog

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
    """Return whether nobody answered, rather than answered with an error."""
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
        """Return what `ask` returns or raises, once the server has answered; until then it is called again and
        again.
        """
        async with self._check_meanwhile():
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
    async def _check_meanwhile(self) -> AsyncIterator[None]:
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


RINGING_EVENTS = CLOSING_EVENTS | {EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED}
"""Run events can only come from these: whatever a workflow emits, it emits in a workflow task."""

FIRST_LOOK, LAST_LOOK = 0.25, 2.0
"""Seconds until a watcher looks whether a tool tells how far it is; the pause doubles for as long as none does."""

LONGEST_UNREAD = 1.0
"""Seconds after which the log is read, whether or not the bell has rung."""


async def watch(chain: Chain, log: RunLog, patience: Patience, after: int | str) -> AsyncGenerator[RunEvent, None]:
    """Yield the events after `after`, as they come; ends with the run. Waits for a server that is away.

    Raises ValueError for an `after` that is no position, and `RPCError` when there is no such run.
    """
    watcher = _Watcher(chain, log, patience, Cursor(after))
    try:
        while not watcher.has_all:
            for event in await watcher.next_events():
                yield event
    finally:
        await watcher.close()


class _Watcher:
    """One reader of a run: what it was given, and what it waits with."""

    def __init__(self, chain: Chain, log: RunLog, patience: Patience, cursor: Cursor) -> None:
        self._chain = chain
        self._log = log
        self._patience = patience
        self._cursor = cursor
        self._bell: Doorbell | None = None
        self._has_rung = True
        self._read_at = 0.0

    @property
    def has_all(self) -> bool:
        """Return whether the run has ended and every event was given."""
        return self._log.has_ended and self._cursor.seq >= self._log.last_seq

    async def next_events(self) -> list[RunEvent]:
        """Wait until there may be news, and return them."""
        heard = await self._patience(self._wait)
        # The log is read afterwards: it says which call of the model is the last one that has begun, and which tools.
        if self._is_news(heard):
            await self._patience(self._log.refresh)
            self._has_rung, self._read_at = False, time.monotonic()
        log, cursor = self._log, self._cursor
        events = [seen for event in log.events_after(cursor.seq) for seen in cursor.recorded_news(event)]
        if heard.speech and heard.speech.said.iteration == log.calling_iteration:
            events += cursor.live_news(heard.speech)
        if heard.progress:
            under_way = log.tools_under_way
            told = [each for each in heard.progress if (each.iteration, each.call_id) in under_way]
            events += cursor.progress_news(tuple(told))
        return events

    def _is_news(self, heard: LiveState) -> bool:
        """Return whether the log has to be read: not for more of the text of the call that it knows to be under way."""
        if self._has_rung or time.monotonic() - self._read_at > LONGEST_UNREAD:
            return True
        begun = heard.speech is not None and heard.speech.said.iteration != self._log.calling_iteration
        return begun or self._cursor.is_news(heard.progress)

    async def _wait(self) -> LiveState:
        """Wait until the log may have grown; returns what is being told."""
        if not self._log.is_open:
            self._has_rung = True
            return LiveState()
        link = self._log.link
        if self._bell is None or self._bell.run_id != link.run_id:
            # The history may have grown before it was listened to: the caller looks once more, then waits.
            await self.close()
            self._bell, self._has_rung = Doorbell(self._chain, link.run_id), True
            return LiveState()
        if link.input.options.stream:
            self._has_rung |= await self._bell.wait(STREAM_SECONDS)
            return await listen(self._chain, link.run_id)
        self._has_rung = True
        return await self._wait_beside_tools(self._bell)

    async def _wait_beside_tools(self, bell: Doorbell) -> LiveState:
        """Wait for the bell; while tools are under way, look now and then whether they tell how far they are."""
        pause = FIRST_LOOK
        while self._log.tools_under_way:
            if await bell.wait(pause):
                return LiveState()
            heard = await listen(self._chain, bell.run_id)
            if self._cursor.is_news(heard.progress):
                return heard
            pause = min(pause * 2, LAST_LOOK)
        await bell.wait(None)
        return LiveState()

    async def close(self) -> None:
        if self._bell:
            await self._bell.close()


class Doorbell:
    """Rings when a link's history grows by something that may have made events."""

    def __init__(self, chain: Chain, run_id: str) -> None:
        self.run_id = run_id
        self._handle = chain.handle(run_id)
        self._rung = asyncio.Event()
        self._listening = asyncio.create_task(self._listen())

    async def wait(self, seconds: float | None) -> bool:
        """Return whether it has rung since the last time, within so many seconds; None waits for as long as it takes.

        Raises what listening has raised: `RPCError` when the link is gone.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        has_rung = self._rung.is_set()
        self._rung.clear()
        if self._listening.done():
            self._listening.result()
        return has_rung

    async def close(self) -> None:
        """Listen no longer."""
        self._listening.cancel()
        with suppress(asyncio.CancelledError):
            await self._listening

    async def _listen(self) -> None:
        history = self._handle.fetch_history_events(wait_new_event=True)
        try:
            while not await self._listen_once(history):
                # Whoever waits asks the server now, and goes on waiting for it.
                self._rung.set()
                await asyncio.sleep(RETRY_SECONDS)
        finally:
            self._rung.set()

    async def _listen_once(self, history: AsyncIterator[HistoryEvent]) -> bool:
        """Listen until the link closes; False when the server went away before."""
        try:
            async for event in history:
                if event.event_type in RINGING_EVENTS:
                    self._rung.set()
        except RPCError as error:
            if not is_away(error):
                raise
            return False
        return True
