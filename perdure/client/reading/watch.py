"""Follows a run live by its history's growth, and waits for an unreachable server."""

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
from temporalio.api.workflowservice.v1 import PollActivityTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from ...activities.pollers import quota_of
from ...events import RunEvent
from ...history.chain import Chain
from ...history.events import CLOSING_EVENTS
from ...history.link import RecordedLink
from ...options import OWN_SERVER_INTERVALS, heartbeat_intervals
from ...protocol.activities import readers_queue
from .events import Cursor, LiveState, listen
from .log import Growth, RunEvents

logger = logging.getLogger("perdure.waiting")
"""Logs a warning when the server stops answering, and another when it answers again."""

CHECK_SECONDS = 2.0
"""After this time without an answer, the health of the server is checked."""
RETRY_SECONDS = 0.5
"""The pause after an unanswered request."""
_AWAY = (RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED)
_PERHAPS_AWAY = (RPCStatusCode.UNKNOWN, RPCStatusCode.INTERNAL)

Answer = TypeVar("Answer")


_IN_PASSING = ("branch tokens", "something went wrong, please retry")
"""Parts of the server's errors for a run that changes at that moment, or that another host takes
over; a repeated request succeeds."""
TRIES = 5


def is_away(error: RPCError) -> bool:
    """Return whether the server did not answer, or answered with a passing error."""
    if any(word in error.message for word in _IN_PASSING):
        return True
    if error.status in _PERHAPS_AWAY:
        return any(word in error.message for word in ("transport", "h2", "connection"))
    return error.status in _AWAY


async def ask_again(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """Return the result of `ask`, which is called again after a passing error. Raises its
    errors.
    """
    for _ in range(TRIES - 1):
        try:
            return await ask()
        except RPCError as error:
            if error.status in _AWAY or not is_away(error):
                raise
        await asyncio.sleep(RETRY_SECONDS)
    return await ask()


class _Away(Exception):
    """The server did not answer."""


class ServerRetry:
    """Repeats requests until the server answers."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._is_away = False
        self._missed_at: float | None = None
        """The time of the first unanswered request."""
        self._quota = ""

    async def __call__(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """Call `ask` until the server answers; return its result, or raise its error."""
        async with self._check_meanwhile():
            while True:
                with suppress(_Away):
                    return await self._try(ask)
                await asyncio.sleep(RETRY_SECONDS)

    async def _try(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        try:
            answer = await ask()
        except RPCError as error:
            if quota := quota_of(error):
                self._note_quota(quota)
            elif is_away(error):
                self._note(is_away=True)
            else:
                raise
            raise _Away from error
        self._note_quota("")
        self._note(is_away=False)
        return answer

    @asynccontextmanager
    async def _check_meanwhile(self) -> AsyncIterator[None]:
        """Check the server's health while the block waits: an open request does not show that it is
        gone.
        """
        looking: asyncio.Task[None] | None = None

        def begin() -> None:
            nonlocal looking
            looking = asyncio.create_task(self._check_health())

        timer = asyncio.get_running_loop().call_later(CHECK_SECONDS, begin)
        try:
            yield
        finally:
            timer.cancel()
            if looking is not None:
                looking.cancel()

    async def _check_health(self) -> None:
        while True:
            try:
                await self._client.service_client.check_health(
                    timeout=timedelta(seconds=CHECK_SECONDS)
                )
            except RPCError as error:
                # A server without this request has answered, too.
                self._note(is_away=is_away(error))
            else:
                self._note(is_away=False)
            await asyncio.sleep(CHECK_SECONDS if self._missed_at is None else RETRY_SECONDS)

    def _note_quota(self, quota: str) -> None:
        if quota and not self._quota:
            logger.warning(
                "the server refuses requests, for a quota is used up (%s); waiting", quota
            )
        self._quota = quota

    def _note(self, *, is_away: bool) -> None:
        """Log once that the server is gone, and once that it is back.

        It counts as gone after two unanswered requests: a request is lost when the server closes an
        old connection.
        """
        now = time.monotonic()
        self._missed_at = (self._missed_at or now) if is_away else None
        is_first = self._missed_at is not None and now - self._missed_at < RETRY_SECONDS / 2
        if is_away == self._is_away or is_first:
            return
        self._is_away = is_away
        address = self._client.service_client.config.target_host
        if is_away:
            logger.warning("the server at %s does not answer; waiting", address)
        else:
            logger.warning("the server at %s answers again", address)


RINGING_EVENTS = CLOSING_EVENTS | {EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED}
"""The events of a history after which a run may have new events, which come from workflow tasks
only."""

FIRST_LOOK, LAST_LOOK = 0.25, 2.0
"""Seconds before a watcher looks for the progress of tools; the pause doubles while there is
none."""

REST = 3.0
"""The pause between two replays of a reader, in durations of the last one."""

POLL_SECONDS = 10.0
"""The interval at which a reader shows its presence; workers wait longer before they miss it."""


async def watch(
    chain: Chain, log: RunEvents, patience: ServerRetry, after: int | str
) -> AsyncGenerator[RunEvent, None]:
    """Yield the events after `after`, as they come, until the run ends. Waits for an unreachable
    server.

    Raises ValueError for an `after` that is not a position, and `RPCError` when there is no such
    run.
    """
    watcher = _Watcher(chain, log, patience, Cursor(after))
    try:
        while not watcher.has_all:
            for event in await watcher.next_events():
                yield event
    finally:
        await watcher.close()


class _Watcher:
    """One reader of a run."""

    def __init__(self, chain: Chain, log: RunEvents, patience: ServerRetry, cursor: Cursor) -> None:
        self._chain = chain
        self._log = log
        self._retry = patience
        self._cursor = cursor
        self._watcher: HistoryWatcher | None = None
        self._presence: asyncio.Task[None] | None = None
        self._has_rung = True
        self._read_at = 0.0
        self._seconds = OWN_SERVER_INTERVALS.stream_seconds
        self._hears = False

    @property
    def has_all(self) -> bool:
        """Return whether the run has ended and the reader has every event."""
        return self._log.has_ended and self._cursor.seq >= self._log.last_seq

    async def next_events(self) -> list[RunEvent]:
        """Wait until there may be news, and return them."""
        heard = await self._retry(self._wait)
        # Read the log afterwards: it has the last model call that has begun, and the tools.
        if self._is_news(heard) and self._rest() <= 0:
            await self._retry(self._read)
        log, cursor = self._log, self._cursor
        events = [
            seen for event in log.events_after(cursor.seq) for seen in cursor.recorded_news(event)
        ]
        self._hears = (
            heard.speech is not None and heard.speech.said.iteration == log.calling_iteration
        )
        if heard.speech and self._hears:
            events += cursor.live_news(heard.speech)
        if heard.progress:
            under_way = log.tools_under_way
            told = [each for each in heard.progress if (each.iteration, each.call_id) in under_way]
            events += cursor.progress_news(tuple(told))
        return events

    def _is_news(self, heard: LiveState) -> bool:
        """Return whether the log has news; more text of the model call that it knows is not
        news.
        """
        begun = (
            heard.speech is not None and heard.speech.said.iteration != self._log.calling_iteration
        )
        return self._has_rung or begun or self._cursor.is_news(heard.progress)

    @property
    def _spare(self) -> float:
        """The seconds by which events may come later than from a self-hosted server, to save
        requests.
        """
        return max(self._seconds - OWN_SERVER_INTERVALS.stream_seconds, 0.0)

    def _rest(self) -> float:
        """Return the seconds until the log may be read again; 0 or less means at once."""
        if self._watcher is None or self._watcher.has_ended:
            return 0.0
        return self._read_at + max(self._spare, REST * self._log.replay_seconds) - time.monotonic()

    async def _read(self) -> None:
        growth = self._watcher.growth if self._watcher else None
        await self._log.refresh(growth, by_replay=bool(self._spare))
        self._has_rung, self._read_at = False, time.monotonic()

    async def _wait(self) -> LiveState:
        """Wait until the log may have grown; return the live text and progress."""
        if not self._log.is_open:
            self._has_rung = True
            return LiveState()
        link = self._log.link
        if self._watcher is None or self._watcher.run_id != link.run_id:
            # The history may have grown before this: the caller reads once more, then waits.
            await self.close()
            self._watcher, self._has_rung, self._read_at = (
                HistoryWatcher(self._chain, link.run_id),
                True,
                0.0,
            )
            self._presence = asyncio.create_task(show_presence(self._chain, link))
            self._seconds = heartbeat_intervals(link.input.options).stream_seconds
            await self._watcher.wait(CHECK_SECONDS)
            return LiveState()
        if link.input.options.stream:
            pause = self._seconds if self._hears else min(self._seconds, FIRST_LOOK)
            self._has_rung |= await self._watcher.wait(
                min(pause, self._rest()) if self._has_rung else pause
            )
            return await listen(self._chain, link.run_id)
        heard = LiveState() if self._has_rung else await self._wait_beside_tools(self._watcher)
        await self._watcher.wait_for_end(self._rest())
        self._has_rung = True
        return heard

    async def _wait_beside_tools(self, bell: HistoryWatcher) -> LiveState:
        """Wait for the history to grow; meanwhile, look for the progress of running tools."""
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
        if self._presence:
            self._presence.cancel()
            await asyncio.wait([self._presence])
        if self._watcher:
            await self._watcher.close()


async def show_presence(chain: Chain, link: RecordedLink) -> None:
    """Show the link's workers, until cancelled, that the run has a reader: workers look for such
    polls.

    A poll is free, and workers do not count readers. Where the server refuses it, streamed text
    arrives when it is recorded.
    """
    started = link.history[0].workflow_execution_started_event_attributes
    while True:
        try:
            await poll_as_reader(chain.client, started.task_queue.name, chain.workflow_id)
        except RPCError as error:
            logger.debug("the run %s was not notified of its reader: %s", chain.workflow_id, error)
        await asyncio.sleep(RETRY_SECONDS)


async def poll_as_reader(client: Client, task_queue: str, run: str) -> None:
    """Poll the empty queue of readers once. Raises `RPCError`."""
    poll = PollActivityTaskQueueRequest(
        namespace=client.namespace, task_queue=readers_queue(task_queue), identity=run
    )
    await client.workflow_service.poll_activity_task_queue(
        poll, retry=False, timeout=timedelta(seconds=POLL_SECONDS)
    )


class HistoryWatcher:
    """Follows the growth of a link's history, and notes when the run may have new events."""

    def __init__(self, chain: Chain, run_id: str) -> None:
        self.run_id = run_id
        self._handle = chain.handle(run_id)
        self._rung = asyncio.Event()
        self._ended = asyncio.Event()
        self._events: list[HistoryEvent] = []
        self._listening = asyncio.create_task(self._listen())

    @property
    def growth(self) -> Growth | None:
        """Return the history so far; None before its first event."""
        return Growth(self.run_id, self._events) if self._events else None

    @property
    def has_ended(self) -> bool:
        """Return whether the link has ended, or does not exist."""
        return self._ended.is_set()

    async def wait_for_end(self, seconds: float) -> None:
        """Wait for the link's end, at most these seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, 0.0)):
                await self._ended.wait()

    async def wait(self, seconds: float | None) -> bool:
        """Wait at most these seconds, or without a limit; return whether the run may have new
        events since the last call. Raises `RPCError` when the link is gone.
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
        """Stop following."""
        self._listening.cancel()
        with suppress(asyncio.CancelledError):
            await self._listening

    async def _listen(self) -> None:
        history = self._handle.fetch_history_events(wait_new_event=True)
        try:
            while not await self._listen_once(history):
                # The waiting reader asks the server itself.
                self._rung.set()
                await asyncio.sleep(RETRY_SECONDS)
        finally:
            self._ended.set()
            self._rung.set()

    async def _listen_once(self, history: AsyncIterator[HistoryEvent]) -> bool:
        """Follow the history until the link closes; return False when the server becomes
        unreachable before, or refuses for a quota.
        """
        try:
            async for event in history:
                if not self._events or event.event_id > self._events[-1].event_id:
                    self._events.append(event)
                if event.event_type in RINGING_EVENTS:
                    self._rung.set()
                if event.event_type in CLOSING_EVENTS:
                    self._ended.set()
        except RPCError as error:
            if not (is_away(error) or quota_of(error)):
                raise
            return False
        return True
