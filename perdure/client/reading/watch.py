"""Follows a run live: waits until its history has grown, then reads the new events. The run does no work for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.service import RPCError

from ...events import RunEvent
from ...history.chain import Chain
from ...history.history_events import CLOSING_EVENTS
from ...protocol.activities import STREAM_SECONDS
from .cursor import Cursor
from .live_text import Heard, listen
from .log import RunLog
from .patience import RETRY_SECONDS, Patience, is_away

RINGING_EVENTS = CLOSING_EVENTS | {EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED}
"""Run events can only come from these: whatever a workflow emits, it emits in a workflow task."""

FIRST_LOOK, LAST_LOOK = 0.25, 2.0
"""Seconds until a watcher looks whether a tool tells how far it is; the pause doubles for as long as none does."""

LONGEST_UNREAD = 1.0
"""Seconds after which the log is read, whether or not the bell has rung."""


async def watch(chain: Chain, log: RunLog, patience: Patience, after: int | str) -> AsyncGenerator[RunEvent, None]:
    """The events after `after`, as they come; ends with the run. Waits for a server that is away.

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
        """Whether the run has ended and every event was given."""
        return self._log.ended and self._cursor.seq >= self._log.last_seq

    async def next_events(self) -> list[RunEvent]:
        """Wait until there may be news, and return them."""
        heard = await self._patience(self._wait)
        # The log is read afterwards: it says which call of the model is the last one that has begun, and which tools.
        if self._is_news(heard):
            await self._patience(self._log.refresh)
            self._has_rung, self._read_at = False, time.monotonic()
        log, cursor = self._log, self._cursor
        events = [seen for event in log.events_after(cursor.seq) for seen in cursor.recorded(event)]
        if heard.speech and heard.speech.said.iteration == log.calling:
            events += cursor.live(heard.speech)
        if heard.progress:
            under_way = log.tools_under_way
            told = [each for each in heard.progress if (each.iteration, each.call_id) in under_way]
            events += cursor.progress(tuple(told))
        return events

    def _is_news(self, heard: Heard) -> bool:
        """Whether the log has to be read: not for more of the text of the call that it knows to be under way."""
        if self._has_rung or time.monotonic() - self._read_at > LONGEST_UNREAD:
            return True
        begun = heard.speech is not None and heard.speech.said.iteration != self._log.calling
        return begun or self._cursor.is_news(heard.progress)

    async def _wait(self) -> Heard:
        """Wait until the log may have grown; returns what is being told."""
        if not self._log.is_open:
            self._has_rung = True
            return Heard()
        link = self._log.link
        if self._bell is None or self._bell.run_id != link.run_id:
            # The history may have grown before it was listened to: the caller looks once more, then waits.
            await self.close()
            self._bell, self._has_rung = Doorbell(self._chain, link.run_id), True
            return Heard()
        if link.input.options.stream:
            self._has_rung |= await self._bell.wait(STREAM_SECONDS)
            return await listen(self._chain, link.run_id)
        self._has_rung = True
        return await self._wait_beside_tools(self._bell)

    async def _wait_beside_tools(self, bell: Doorbell) -> Heard:
        """Wait for the bell; while tools are under way, look now and then whether they tell how far they are."""
        pause = FIRST_LOOK
        while self._log.tools_under_way:
            if await bell.wait(pause):
                return Heard()
            heard = await listen(self._chain, bell.run_id)
            if self._cursor.is_news(heard.progress):
                return heard
            pause = min(pause * 2, LAST_LOOK)
        await bell.wait(None)
        return Heard()

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
        """Whether it has rung since the last time, within so many seconds; None waits for as long as it takes.

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
            while not await self._heard(history):
                # Whoever waits asks the server now, and goes on waiting for it.
                self._rung.set()
                await asyncio.sleep(RETRY_SECONDS)
        finally:
            self._rung.set()

    async def _heard(self, history: AsyncIterator[HistoryEvent]) -> bool:
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
