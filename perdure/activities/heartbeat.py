"""An activity under way: it beats, when it has to or somebody reads what it tells, and hears of a cancellation."""

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

from ..options import OWN_CADENCE
from ..protocol.activities import StreamedText, readers_queue
from ..redaction import get_logger, redactor
from .pollers import ACTIVITIES, quota_of

_log = get_logger("perdure.runs")

BEAT_SHARES = (0.65, 0.8)
"""Of an activity's heartbeat time-out, the least and the most that passes until a beat; the most is that of Temporal's
SDK. From the answer to a beat, an activity learns that it was cancelled."""
SPARE_SECONDS = 2.3
"""So much of the time-out is left at a beat: for a server that is away for a moment, or a worker that is busy."""
CANCEL_SECONDS = (0.1, 0.6)
"""After the run has given an activity up, when this one asks by a beat whether it is the one: the server takes a moment
to know it."""
HEART_FAILED = "HeartFailed"
"""Error type: an attempt was ended because its heartbeat failed."""
on_first_words: ContextVar[Callable[[], None] | None] = ContextVar("on_first_words", default=None)
"""Called once in an attempt, when the model begins to say something that is streamed."""
MAX_SAID_CHARS = 250_000
"""Each beat carries everything said so far, and Temporal takes 2 MB; what comes after this is seen with the result."""

LOOK_SECONDS = 0.5
"""Between two looks while a call has something to tell, and nobody is known to read it."""
RENEW_SECONDS = 4.0
"""Between two looks while all that is told is read."""
LEASE_SECONDS = 15.0
"""A reader polls more often than that; one that has not done so for longer is gone."""
ASKED_SECONDS = 6.0
"""The same after a question about the run's events, which this worker has answered: it looks before that is over."""
LOOK_TIMEOUT = timedelta(seconds=5)
COMPLAINT_SECONDS = 60.0
"""Between two lines in the log about looks that the server refuses."""


class Readers:
    """The readers of runs that one worker knows of: they poll a queue of their own, and the worker looks who does.

    It looks for them only while a call has something to tell. That is one request for all of the worker's calls, and
    costs nothing on Temporal Cloud; nor do the polls by which readers are known.
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
        """Return whether somebody reads the run."""
        return self._until.get(run, 0.0) > time.monotonic()

    def note(self, run: str) -> None:
        """Take note that somebody has just asked this worker about the run's events. May be called from any thread."""
        self._extend(run, ASKED_SECONDS)
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_call, self._listeners, run)

    def call_on_reader(self, run: str, on_reader: Callable[[], None]) -> None:
        """Look for readers of the run, from an activity; call `on_reader`, until `forget`, for one that comes."""
        self._loop = asyncio.get_running_loop()
        self._listeners[on_reader] = run
        self._queues[run] = activity.info().task_queue
        self._look_soon()

    def call_on_cancel(self, run: str, on_cancel: Callable[[], None]) -> None:
        """Call `on_cancel`, until `forget`, when the run gives an activity up, as known here."""
        self._loop = asyncio.get_running_loop()
        self._alive[on_cancel] = run

    def forget(self, *callbacks: Callable[[], None]) -> None:
        """Call none of these any more, whatever for."""
        for each in callbacks:
            self._alive.pop(each, None)
            self._listeners.pop(each, None)

    def warn(self, run: str) -> None:
        """Take note that the run has given an activity up. May be called from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_call, self._alive, run)

    def _look_soon(self) -> None:
        self._is_unread.set()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look_while_needed(activity.client()))

    async def _look_while_needed(self, client: Client) -> None:
        while self._listeners:
            await asyncio.sleep(self._looked_at + LOOK_SECONDS - time.monotonic())
            self._is_unread.clear()
            self._queues = {run: self._queues[run] for run in self._listeners.values()}
            for task_queue in set(self._queues.values()):
                await self._look(client, task_queue)
            if all(map(self.has, self._listeners.values())):
                await self._wait_for_unread()

    async def _wait_for_unread(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(RENEW_SECONDS):
                await self._is_unread.wait()

    async def _look(self, client: Client, task_queue: str) -> None:
        request = DescribeTaskQueueRequest(
            namespace=client.namespace, task_queue=readers_queue(task_queue), task_queue_type=ACTIVITIES
        )
        try:
            description = await client.workflow_service.describe_task_queue(request, retry=False, timeout=LOOK_TIMEOUT)
        except RPCError as error:
            self._complain(error)
            return
        finally:
            self._looked_at = time.monotonic()
        polls = {(task_queue, each.identity): each.last_access_time.ToNanoseconds() for each in description.pollers}
        # Neither clock need be right: what counts is that there was a further poll.
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
        _log.warning("The server refuses %s to say who reads runs: streamed text may come late", why)


def _call(callbacks: Mapping[Callable[[], None], str], run: str) -> None:
    for callback in [each for each, of in callbacks.items() if of == run]:
        callback()


@asynccontextmanager
async def heartbeats(details: Sequence[object] = (), readers: Readers | None = None) -> AsyncIterator[Heart]:
    """Heartbeat for as long as the block runs, with these details until it tells others; sooner for `readers`.

    The user's code in it may heartbeat, too, from wherever it runs.

    A block that is cancelled because its run is over raises an `ApplicationError` that nobody logs, instead of the
    `CancelledError`: nothing went wrong. One whose heartbeat fails raises an `ApplicationError` that says so, and that
    Temporal may retry: without heartbeats it would be taken for lost in the middle of its work.
    """
    heart = Heart(details, readers)
    heart.start()
    _heartbeat_from_anywhere(heart)
    try:
        yield heart
    except asyncio.CancelledError:
        if heart.failure is not None:
            raise ApplicationError(f"Its heartbeat failed: {heart.failure!r}", type=HEART_FAILED) from heart.failure
        if _run_is_over():
            raise ApplicationError(
                "The run is over", non_retryable=True, category=ApplicationErrorCategory.BENIGN
            ) from None
        raise
    finally:
        await heart.stop()


def _heartbeat_from_anywhere(heart: Heart) -> None:
    """Let user code call `temporalio.activity.heartbeat` in this activity on whatever event loop and thread it runs.

    The SDK's own function is for the worker's event loop alone. Details that can't be sent raise where they are told:
    later, that would end the activity, to be repeated.
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
    """Return after how many seconds the activity has to beat again; not the same for all that began together."""
    timeout = info.heartbeat_timeout
    seconds = timeout.total_seconds() if timeout else OWN_CADENCE.lost_worker_seconds
    return beat_seconds(seconds, random.uniform(*BEAT_SHARES))


def seconds_since_given(info: activity.Info) -> float:
    """Return for how long the server counts already: a busy worker takes an attempt up late. Its clock may differ."""
    return (datetime.now(UTC) - info.started_time).total_seconds()


def beat_seconds(timeout: float, share: float) -> float:
    """Return after how many seconds an activity with that heartbeat time-out beats, if it is after that share of it."""
    return max(min(timeout * share, timeout - SPARE_SECONDS), timeout / 2)


class Heart:
    """Beats when most of the activity's time-out has passed, and sooner while somebody reads what there is to tell.

    Each beat is a request to the server, and an Action on Temporal Cloud: an activity that is done before its first
    one has sent none.
    """

    def __init__(self, details: Sequence[object] = (), readers: Readers | None = None) -> None:
        self.streamed: StreamedText | None = None
        """What the model has said so far, as the next beat tells it; None before `speak`."""
        self.is_full = False
        """Whether what was said is longer than beats tell."""
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
        self.stream_seconds = OWN_CADENCE.stream_seconds
        """How often readers are told, if the time-out leaves so much time between beats."""
        self.on_own_beat: Callable[..., None] = self.keep
        """Takes the details of a heartbeat that the user's code sends by itself."""
        self.failure: BaseException | None = None
        """Why it beats no more, and the attempt was cancelled; None while nothing is wrong."""

    def speak(self, iteration: int, attempt: int) -> None:
        """Tell readers what the model says from now on: nothing so far, so what another attempt said is dropped."""
        self.streamed = StreamedText(iteration=iteration, attempt=attempt)
        self.is_full = False
        self._details = (self.streamed,)
        self._listen_to_readers()
        if attempt > 1:
            # Of a first attempt, a beat that says nothing would only delay the first one that does.
            self._tell_soon()

    def go_on(self, said: StreamedText) -> None:
        """Tell watchers what the model says after that, which an attempt before this one has told."""
        self.streamed = said
        self._details = (said,)
        self._listen_to_readers()

    def add(self, kind: str, text: str) -> None:
        """Add a piece of streamed `text` or `thinking`, and tell readers soon; only after `speak`."""
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
        """Tell readers of these details soon, and everybody with every beat that follows."""
        self._details = details
        self._listen_to_readers()
        self._tell_soon()

    def begin_with(self, *details: object) -> None:
        """Take details that the server has already: every beat that follows has them."""
        self._details = details

    async def record(self) -> None:
        """Beat now, and return when the server has it. Raises RPCError, and AsyncActivityCancelledError."""
        assert self._send is not None
        self._send(*self._sendable())
        handle = activity.client().get_async_activity_handle(task_token=activity.info().task_token)
        await handle.heartbeat(*self._sendable())

    def keep(self, *details: object) -> None:
        """Have the server keep these details for another attempt: at once, and further ones after longer pauses."""
        self._details = details
        self._news = True
        if self._readers.has(self._run):
            self._beat_soon()
        elif self._beating is None or time.monotonic() - self._kept_at >= self._pause:
            self._kept_at = time.monotonic()
            self._pause = min(2 * self._pause or self.stream_seconds, self._seconds)
            self._beat_soon()

    def start(self) -> None:
        """Begin to beat, in an activity, when it is time, or as soon as there is something to tell.

        Beats are sent in the context of whoever calls this, for there may be none where something is told first: in a
        callback, in a thread, or in a task that some other activity has started.
        """
        self._run, self._seconds = (info := activity.info()).workflow_id or "", _seconds_between_beats(info)
        self._context = copy_context()
        self._attempt = asyncio.current_task()
        self._send = activity._Context.current().heartbeat
        late = seconds_since_given(info)
        first = self._seconds - (late if 0 < late < 2 * self._seconds else 0.0)
        self._first = asyncio.get_running_loop().call_later(max(first, 0.0), self._begin)
        self._readers.call_on_cancel(self._run, self._on_cancel)

    async def stop(self) -> None:
        """Beat no more; only returns when no beat is under way."""
        self._readers.forget(self._on_cancel, self._on_reader)
        if self._first is not None:
            self._first.cancel()
            self._first = None  # what is told from now on is not heard
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
            self._begin()

    def _begin(self) -> None:
        assert self._first is not None
        self._first.cancel()
        if self._beating is None:
            self._beating = asyncio.get_running_loop().create_task(self._beat(), context=self._context)
            self._beating.add_done_callback(self._end_attempt_if_failed)

    def _end_attempt_if_failed(self, beating: asyncio.Task[None]) -> None:
        if not beating.cancelled() and (failure := beating.exception()) is not None and self._attempt is not None:
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
                # Not wait_for: in Python 3.11 it loses a cancellation that comes together with the news.
                async with asyncio.timeout(self._seconds - pause):
                    await self._due.wait()

    def _sendable(self) -> tuple[object, ...]:
        """Return the details without known secrets; what a model says, which has seen none, is not searched."""
        if self._details and not isinstance(self._details[0], StreamedText):
            return tuple(map(redactor().encoded, self._details))
        return self._details
