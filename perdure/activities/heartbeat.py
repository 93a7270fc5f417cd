"""Heartbeats of a running activity: sent on schedule, sooner for readers; they also report a
cancellation.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar, copy_context
from datetime import UTC, datetime, timedelta

from temporalio import activity
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError

from ..options import OWN_SERVER_INTERVALS
from ..protocol.activities import StreamedText, readers_queue
from ..redaction import get_logger, redactor
from .pollers import ACTIVITIES, quota_of

_log = get_logger("perdure.runs")

BEAT_SHARES = (0.65, 0.8)
"""Share of the heartbeat time-out that passes before a heartbeat: least, most (as Temporal's SDK
has it). The answer reports a cancellation.
"""
SPARE_SECONDS = 2.3
"""Seconds of the time-out left at a heartbeat, for a briefly unavailable server or a busy
worker."""
CANCEL_SECONDS = (0.1, 0.6)
"""Seconds after the run gives activities up until each asks, by a heartbeat, whether it is one of
them."""
HEART_FAILED = "HeartFailed"
"""Error type: the attempt ended because its heartbeat failed."""
on_first_words: ContextVar[Callable[[], None] | None] = ContextVar("on_first_words", default=None)
"""Called once in an attempt, at the model's first streamed output."""
MAX_SAID_CHARS = 250_000
"""Each heartbeat carries all text so far, and Temporal accepts 2 MB; text beyond this limit comes
with the result."""

LOOK_SECONDS = 0.5
"""Seconds between two looks while a call has news and no known reader."""
RENEW_SECONDS = 4.0
"""Seconds between two looks while each call with news has a reader."""
LEASE_SECONDS = 15.0
"""A reader polls more often than this; after a longer silence it is gone."""
ASKED_SECONDS = 6.0
"""The same after this worker has answered a query for the run's events; the worker looks again
before it ends."""
LOOK_TIMEOUT = timedelta(seconds=5)
COMPLAINT_SECONDS = 60.0
"""Seconds between two log lines about looks that the server refuses."""


class Readers:
    """The readers of runs that one worker knows: readers poll a queue of their own, and the worker
    lists its pollers.

    The worker looks only while a call has news: one request for all of its calls. Neither the
    request nor the readers' polls cost anything on Temporal Cloud.
    """

    def __init__(self) -> None:
        self._until: dict[str, float] = {}
        self._polls: dict[tuple[str, str], int] = {}
        self._listeners: dict[Callable[[], None], str] = {}
        self._queues: dict[str, str] = {}
        self._alive: dict[Callable[[], None], str] = {}
        self._looking: asyncio.Task[None] | None = None
        self._is_unread = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._looked_at = self._complained_at = -float("inf")

    def has(self, run: str) -> bool:
        """Return whether the run has a reader."""
        return self._until.get(run, 0.0) > time.monotonic()

    def note(self, run: str) -> None:
        """Note that a reader has just queried this worker for the run's events. Callable from any
        thread.
        """
        self._extend(run, ASKED_SECONDS)
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_call, self._listeners, run)

    def call_on_reader(self, run: str, on_reader: Callable[[], None]) -> None:
        """Look for readers of the run, from an activity; call `on_reader` for a new one, until
        `forget`.
        """
        self._loop = asyncio.get_running_loop()
        self._listeners[on_reader] = run
        self._queues[run] = activity.info().task_queue
        self._look_soon()

    def call_on_cancel(self, run: str, on_cancel: Callable[[], None]) -> None:
        """Call `on_cancel` when this worker learns that the run gives an activity up, until
        `forget`.
        """
        self._loop = asyncio.get_running_loop()
        self._alive[on_cancel] = run

    def forget(self, *callbacks: Callable[[], None]) -> None:
        """Stop calling these callbacks."""
        for each in callbacks:
            self._alive.pop(each, None)
            self._listeners.pop(each, None)

    def warn(self, run: str) -> None:
        """Note that the run has given an activity up. Callable from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_call, self._alive, run)

    def _look_soon(self) -> None:
        self._is_unread.set()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(
                self._look_while_needed(activity.client())
            )

    async def _look_while_needed(self, client: Client) -> None:
        while self._listeners:
            await asyncio.sleep(self._looked_at + LOOK_SECONDS - time.monotonic())
            self._is_unread.clear()
            self._queues = {run: self._queues[run] for run in self._listeners.values()}
            for task_queue in set(self._queues.values()):
                await self._look_for_readers(client, task_queue)
            if all(map(self.has, self._listeners.values())):
                await self._wait_for_unread()

    async def _wait_for_unread(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(RENEW_SECONDS):
                await self._is_unread.wait()

    async def _look_for_readers(self, client: Client, task_queue: str) -> None:
        request = DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=readers_queue(task_queue),
            task_queue_type=ACTIVITIES,
        )
        try:
            description = await client.workflow_service.describe_task_queue(
                request, retry=False, timeout=LOOK_TIMEOUT
            )
        except RPCError as error:
            self._complain(error)
            return
        finally:
            self._looked_at = time.monotonic()
        polls = {
            (task_queue, each.identity): each.last_access_time.ToNanoseconds()
            for each in description.pollers
        }
        # Neither clock needs to be right: a changed time shows a further poll.
        news = [run for (queue, run), at in polls.items() if self._polls.get((queue, run)) != at]
        self._polls = {of: at for of, at in self._polls.items() if of[0] != task_queue} | polls
        for run in news:
            self._extend(run, LEASE_SECONDS)
            _call(self._listeners, run)

    def _extend(self, run: str, seconds: float) -> None:
        now = time.monotonic()
        if len(self._until) > len(self._polls) + len(self._listeners):
            self._until = {each: until for each, until in self._until.items() if until > now}
        self._until[run] = max(self._until.get(run, 0.0), now + seconds)

    def _complain(self, error: RPCError) -> None:
        if time.monotonic() - self._complained_at < COMPLAINT_SECONDS:
            return
        self._complained_at = time.monotonic()
        why = f"by its quota ({quota})" if (quota := quota_of(error)) else f"({error.message})"
        _log.warning(
            "The server refuses to list the readers of runs %s: streamed text may come late", why
        )


def _call(callbacks: Mapping[Callable[[], None], str], run: str) -> None:
    for callback in [each for each, of in callbacks.items() if of == run]:
        callback()


@asynccontextmanager
async def heartbeats(
    details: Sequence[object] = (), readers: Readers | None = None
) -> AsyncIterator[Heartbeat]:
    """Send heartbeats while the block runs, with these details until `tell` changes them; sooner
    for `readers`.

    User code in the block may also send heartbeats, from any thread or event loop.

    If the run is over, a cancelled block raises an `ApplicationError` that is not logged, instead
    of `CancelledError`: nothing went wrong. If a heartbeat fails, the block raises a retryable
    `ApplicationError` that says so: without heartbeats, the server would time the activity out in
    the middle of its work.
    """
    heart = Heartbeat(details, readers)
    heart.start()
    _heartbeat_from_anywhere(heart)
    try:
        yield heart
    except asyncio.CancelledError:
        if heart.failure is not None:
            raise ApplicationError(
                f"Its heartbeat failed: {heart.failure!r}", type=HEART_FAILED
            ) from heart.failure
        if _run_is_over():
            raise ApplicationError(
                "The run is over", non_retryable=True, category=ApplicationErrorCategory.BENIGN
            ) from None
        raise
    finally:
        await heart.stop()


def _heartbeat_from_anywhere(heart: Heartbeat) -> None:
    """Let user code call `temporalio.activity.heartbeat` in this activity on any event loop and
    thread.

    The SDK's own function works on the worker's event loop only. Details that can't be serialised
    raise in the caller: a later error would end the activity and repeat it.
    """
    loop, context = asyncio.get_running_loop(), activity._Context.current()

    def heartbeat(*details: object) -> None:
        details = tuple(map(redactor().encoded, details))
        context.payload_converter.to_payloads(details)
        if asyncio._get_running_loop() is loop:
            heart.on_own_beat(*details)
        else:
            loop.call_soon_threadsafe(heart.on_own_beat, *details)

    context.heartbeat = heartbeat


def _run_is_over() -> bool:
    details = activity.cancellation_details()
    return details is not None and details.not_found


def _seconds_between_beats(info: activity.Info) -> float:
    """Return the seconds between this activity's heartbeats; varied, to spread activities that
    begin together.
    """
    timeout = info.heartbeat_timeout
    seconds = timeout.total_seconds() if timeout else OWN_SERVER_INTERVALS.lost_worker_seconds
    return beat_seconds(seconds, random.uniform(*BEAT_SHARES))


def seconds_since_given(info: activity.Info) -> float:
    """Return the attempt's age in seconds by the server's clock, which may differ; a busy worker
    starts it late.
    """
    return (datetime.now(UTC) - info.started_time).total_seconds()


def beat_seconds(timeout: float, share: float) -> float:
    """Return the seconds between heartbeats for a heartbeat time-out, at this share of it."""
    return max(min(timeout * share, timeout - SPARE_SECONDS), timeout / 2)


class Heartbeat:
    """Sends heartbeats after most of the activity's time-out, and sooner while a reader is attached
    and there is news.

    Each heartbeat is a request to the server, and an Action on Temporal Cloud: an activity that
    ends before its first heartbeat has sent none.
    """

    def __init__(self, details: Sequence[object] = (), readers: Readers | None = None) -> None:
        self.streamed: StreamedText | None = None
        """The model's output so far, as the next heartbeat carries it; None before `speak`."""
        self.is_full = False
        """Whether the output is too long for a heartbeat."""
        self._details = tuple(details)
        self._readers = readers or Readers()
        self._run = ""
        self._seconds = self._pause = self._kept_at = 0.0
        self._news = False
        self._due = asyncio.Event()
        self._first: asyncio.TimerHandle | None = None
        self._beating: asyncio.Task[None] | None = None
        self._is_told = False
        self._on_first_words = on_first_words.get()
        self._send: Callable[..., None] | None = None
        self.stream_seconds = OWN_SERVER_INTERVALS.stream_seconds
        """Seconds between heartbeats for readers, if the time-out allows it."""
        self.on_own_beat: Callable[..., None] = self.keep
        """Receives the details of heartbeats that user code sends itself."""
        self.failure: BaseException | None = None
        """Why heartbeats ended and the attempt was cancelled; None without an error."""

    def speak(self, iteration: int, attempt: int) -> None:
        """Stream the model's output from now on. It starts empty, so readers drop the output of
        another attempt.
        """
        self.streamed = StreamedText(iteration=iteration, attempt=attempt)
        self.is_full = False
        self._details = (self.streamed,)
        self._listen_to_readers()
        if attempt > 1:
            # In a first attempt, an empty heartbeat would only delay the first one with text.
            self._tell_soon()

    def add(self, kind: str, text: str) -> None:
        """Add a piece of streamed `text` or `thinking` and send it to readers soon; only after
        `speak`.
        """
        assert self.streamed is not None
        if self._on_first_words is not None:
            self._on_first_words()
            self._on_first_words = None
        self.is_full |= self.streamed.chars + len(text) > MAX_SAID_CHARS
        if self.is_full:
            return
        if kind == "text":
            self.streamed.text += text
        else:
            self.streamed.thinking += text
        self._tell_soon()

    def tell(self, *details: object) -> None:
        """Send these details to readers soon, and with every following heartbeat."""
        self._details = details
        self._listen_to_readers()
        self._tell_soon()

    def begin_with(self, *details: object) -> None:
        """Take details that the server already has; every following heartbeat carries them."""
        self._details = details

    async def record(self) -> None:
        """Send a heartbeat and wait until the server has it. Raises RPCError and
        AsyncActivityCancelledError.
        """
        assert self._send is not None
        self._send(*self._sendable())
        handle = activity.client().get_async_activity_handle(task_token=activity.info().task_token)
        await handle.heartbeat(*self._sendable())

    def keep(self, *details: object) -> None:
        """Store these details on the server for another attempt: at once, and further ones at
        growing intervals.
        """
        self._details = details
        self._news = True
        if self._readers.has(self._run):
            self._beat_soon()
        elif self._beating is None or time.monotonic() - self._kept_at >= self._pause:
            self._kept_at = time.monotonic()
            self._pause = min(2 * self._pause or self.stream_seconds, self._seconds)
            self._beat_soon()

    def start(self) -> None:
        """Begin heartbeats in an activity, on schedule or at the first news.

        Heartbeats use the caller's context, because the first news may come without one: from a
        callback, a thread, or a task that another activity has started.
        """
        self._run, self._seconds = (
            (info := activity.info()).workflow_id or "",
            _seconds_between_beats(info),
        )
        self._context = copy_context()
        self._attempt = asyncio.current_task()
        self._send = activity._Context.current().heartbeat
        late = seconds_since_given(info)
        first = self._seconds - (late if 0 < late < 2 * self._seconds else 0.0)
        self._first = asyncio.get_running_loop().call_later(max(first, 0.0), self._start_beating)
        self._readers.call_on_cancel(self._run, self._on_cancel)

    async def stop(self) -> None:
        """Stop heartbeats; return after the last one has been sent."""
        self._readers.forget(self._on_cancel, self._on_reader)
        if self._first is not None:
            self._first.cancel()
            self._first = None  # ignores later news
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.wait([self._beating])

    def _listen_to_readers(self) -> None:
        if not self._is_told and self._first is not None:
            self._is_told = True
            self._context.run(self._readers.call_on_reader, self._run, self._on_reader)

    def _on_reader(self) -> None:
        if self._news:
            self._beat_soon()

    def _on_cancel(self) -> None:
        for seconds in CANCEL_SECONDS:
            asyncio.get_running_loop().call_later(seconds, self._beat_soon)

    def _tell_soon(self) -> None:
        self._news = True
        if self._readers.has(self._run):
            self._beat_soon()

    def _beat_soon(self) -> None:
        self._due.set()
        if self._first is not None:
            self._start_beating()

    def _start_beating(self) -> None:
        assert self._first is not None
        self._first.cancel()
        if self._beating is None:
            self._beating = asyncio.get_running_loop().create_task(
                self._beat(), context=self._context
            )
            self._beating.add_done_callback(self._end_attempt_if_failed)

    def _end_attempt_if_failed(self, beating: asyncio.Task[None]) -> None:
        if (
            not beating.cancelled()
            and (failure := beating.exception()) is not None
            and self._attempt is not None
        ):
            _log.error("A heartbeat failed, which ends the attempt: %r", failure, exc_info=failure)
            self.failure = failure
            self._attempt.cancel()

    async def _beat(self) -> None:
        assert self._send is not None
        pause = min(self.stream_seconds, self._seconds)
        while True:
            self._news = False
            self._due.clear()
            self._send(*self._sendable())
            await asyncio.sleep(pause)
            with suppress(TimeoutError):
                # Not wait_for: in Python 3.11 it loses a cancellation that arrives together with
                # the news.
                async with asyncio.timeout(self._seconds - pause):
                    await self._due.wait()

    def _sendable(self) -> tuple[object, ...]:
        """Return the details without known secrets. A model's output is not searched: the model has
        seen none.
        """
        if self._details and not isinstance(self._details[0], StreamedText):
            return tuple(map(redactor().encoded, self._details))
        return self._details
