"""An activity under way: it beats, hears of a cancellation, knows of earlier attempts, and runs alone if suspect."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar, copy_context
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.api.failure.v1 import Failure
from temporalio.client import WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError

from ..errors import ConfigurationError
from ..payloads.failures import text_of
from ..protocol.activities import NOT_HERE, STREAM_SECONDS, SUSPECT_WAITS, Offer, StreamedText
from ..redaction import get_logger, redact, redactor
from ..text import one_line
from ..tool_calls import progress_of
from .failures import starts_so_far

_log = get_logger("perdure.runs")

HEARTBEAT_SECONDS = 1.0
"""Between two heartbeats. An activity learns from the answer to one that it was cancelled."""
HEART_FAILED = "HeartFailed"
"""Error type: an attempt was ended because its heartbeat failed."""
on_first_words: ContextVar[Callable[[], None] | None] = ContextVar("on_first_words", default=None)
"""Called once in an attempt, when the model begins to say something that is streamed."""
MAX_SAID_CHARS = 250_000
"""Each beat carries everything said so far, and Temporal takes 2 MB; what comes after this is seen with the result."""


async def cancelled_meanwhile() -> bool:
    """Return whether the run was cancelled since this activity's first attempt was lost: then nothing may start any
    more.

    Costs a request to the server on a further attempt, and nothing on the first. The server is asked because the
    workflow, which would cancel the activity, may have had no worker either. Raises RPCError.
    """
    info = activity.info()
    if info.attempt == 1:
        return False
    assert info.workflow_id is not None
    about = {"run": info.workflow_id, "attempt": info.attempt}
    handle = activity.client().get_workflow_handle(info.workflow_id, run_id=info.workflow_run_id)
    description = await handle.describe()
    failure = _last_failure(description)
    # Offers to other workers have a line of their own, when they begin.
    level = logging.DEBUG if failure and failure.application_failure_info.type == NOT_HERE else logging.WARNING
    if _log.isEnabledFor(level):
        _log.log(
            level,
            "Run %s: %s is tried again (attempt %d)%s",
            *(info.workflow_id, info.activity_type, info.attempt, await _why(failure)),
            extra=about,
        )
    return description.raw_description.workflow_extended_info.cancel_requested


def _last_failure(described: WorkflowExecutionDescription) -> Failure | None:
    """Return how the attempt before this one has failed; None where the server does not say."""
    for pending in described.raw_description.pending_activities:
        if pending.activity_id == activity.info().activity_id and pending.HasField("last_failure"):
            return pending.last_failure
    return None


async def _why(failure: Failure | None) -> str:
    """Return why the attempt before this one has failed; "" where that is not known."""
    if failure is None:
        return ""
    try:
        text = await text_of(activity.client().data_converter, failure)
    except ConfigurationError as problem:
        text = str(problem)
    return f": {one_line(redact(text), 300)}"


@asynccontextmanager
async def heartbeats(details: Sequence[object] = ()) -> AsyncIterator[Heart]:
    """Heartbeat for as long as the block runs, with these details until it tells others.

    The user's code in it may heartbeat, too, from wherever it runs.

    A block that is cancelled because its run is over raises an `ApplicationError` that nobody logs, instead of the
    `CancelledError`: nothing went wrong. One whose heartbeat fails raises an `ApplicationError` that says so, and that
    Temporal may retry: without heartbeats it would be taken for lost in the middle of its work.
    """
    _heartbeat_from_anywhere()
    heart = Heart(details)
    heart.start()
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


def _heartbeat_from_anywhere() -> None:
    """Let user code call `temporalio.activity.heartbeat` in this activity on whatever event loop and thread it runs.

    The SDK's own function is for the worker's event loop alone. No detail of any heartbeat has a known secret in it;
    what a model says, which has seen none, is not searched at each beat. Details that can't be sent raise where they
    are told: later, that would end the activity, to be repeated.
    """
    loop, context = asyncio.get_running_loop(), activity._Context.current()
    converter = activity.payload_converter()
    beat = context.heartbeat
    assert beat is not None

    def heartbeat(*details: object) -> None:
        if details and not isinstance(details[0], StreamedText):
            details = tuple(map(redactor().encoded, details))
            converter.to_payloads(details)
        if asyncio._get_running_loop() is loop:
            beat(*details)
        else:
            loop.call_soon_threadsafe(beat, *details)

    context.heartbeat = heartbeat


def _run_is_over() -> bool:
    details = activity.cancellation_details()
    return details is not None and details.not_found


class Heart:
    """Beats every `HEARTBEAT_SECONDS`, and sooner while there is something new to tell."""

    def __init__(self, details: Sequence[object] = ()) -> None:
        self._said: StreamedText | None = None
        self._is_full = False
        self._details = tuple(details)
        self._news = asyncio.Event()
        self._first: asyncio.TimerHandle | None = None
        self._beating: asyncio.Task[None] | None = None
        self._on_first_words = on_first_words.get()
        self.failure: BaseException | None = None
        """Why it beats no more, and the attempt was cancelled; None while nothing is wrong."""

    def speak(self, iteration: int, attempt: int) -> None:
        """Tell watchers what the model says from now on: nothing so far, so what another attempt said is dropped."""
        self._said = StreamedText(iteration=iteration, attempt=attempt)
        self._is_full = False
        if attempt > 1:
            self.tell(self._said)
        else:
            # A beat that says nothing would only delay the first one that does.
            self._details = (self._said,)

    def add(self, kind: str, text: str) -> None:
        """Add a piece of streamed `text` or `thinking`, and tell it soon; only after `speak`."""
        assert self._said is not None
        if self._on_first_words is not None:
            self._on_first_words()
            self._on_first_words = None
        self._is_full |= len(self._said.text) + len(self._said.thinking) + len(text) > MAX_SAID_CHARS
        if self._is_full:
            return
        if kind == "text":
            self._said.text += text
        else:
            self._said.thinking += text
        self._tell_soon()

    def tell(self, *details: object) -> None:
        """Beat with these details soon, and with every beat that follows."""
        self._details = details
        self._tell_soon()

    def start(self) -> None:
        """Begin to beat in `HEARTBEAT_SECONDS`, or as soon as there is something to tell.

        An activity that is done before has sent no beat at all: each one is a request to the server. Beats are sent in
        the context of whoever calls this, for there may be none where something is told first: in a callback, in a
        thread, or in a task that some other activity has started.
        """
        self._context = copy_context()
        self._attempt = asyncio.current_task()
        self._first = asyncio.get_running_loop().call_later(HEARTBEAT_SECONDS, self._begin)

    async def stop(self) -> None:
        """Beat no more; only returns when no beat is under way."""
        if self._first is not None:
            self._first.cancel()
            self._first = None  # what is told from now on is not heard
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.wait([self._beating])

    def _tell_soon(self) -> None:
        self._news.set()
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
        while True:
            self._news.clear()
            activity.heartbeat(*self._details)
            with suppress(TimeoutError):
                # Not wait_for: in Python 3.11 it loses a cancellation that comes together with the news.
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await self._news.wait()
                await asyncio.sleep(STREAM_SECONDS)


def last_heartbeat(*, is_counted: bool) -> tuple[Any, ...]:
    """Details that the attempt before this one has told last; where starts are counted, without the count."""
    details = tuple(activity.info().heartbeat_details)
    if is_counted or (details and is_count_of_starts(details[0])):
        details = details[1:]
    return details[:-1] if details and progress_of(details[-1]) else details


def is_count_of_starts(detail: Any) -> bool:
    """Return whether a detail of a heartbeat says how often a call was started, as those of suspects do."""
    return isinstance(detail, dict) and detail.get("event") == "tool_starts"


def asked_from_anywhere() -> Callable[[], Awaitable[bool]]:
    """`handed_on` of the current activity, for whatever thread, task or callback asks."""
    context = copy_context()

    async def ask() -> bool:
        return await asyncio.get_running_loop().create_task(handed_on(), context=context)

    return ask


async def handed_on() -> bool:
    """Return whether this activity was cancelled because another attempt goes on with it, not because its run is over.

    Costs a request to the server where the cancellation itself does not say.
    """
    details = activity.cancellation_details()
    if details is None or details.cancel_requested:
        return False
    if details.worker_shutdown:
        return True
    # The server does not know this attempt any more: the run is over, or this worker was taken for lost.
    info = activity.info()
    assert info.workflow_id is not None
    handle = activity.client().get_workflow_handle(info.workflow_id, run_id=info.workflow_run_id)
    try:
        description = await handle.describe()
    except RPCError:
        return True
    is_cancelled = description.raw_description.workflow_extended_info.cancel_requested
    return description.status == WorkflowExecutionStatus.RUNNING and not is_cancelled


FREE_STARTS = 2
"""As often a call is started beside any other: most workers are lost for reasons of their own."""
FIRST_WAIT, LONGEST_WAIT, GROWTH = 1.0, 60.0, 0.2
"""Seconds until a suspect is offered again: a fifth of the time that has passed."""


class Suspects:
    """The suspects of one worker."""

    def __init__(self) -> None:
        self._is_busy = False

    @contextmanager
    def alone(self, starts: int) -> Iterator[None]:
        """Let the block run beside no other suspect, if a call that was started so often is one.

        Raises the ApplicationError by which Temporal offers the call again later, here or elsewhere.
        """
        if starts < FREE_STARTS:
            yield
            return
        if self._is_busy:
            raise _later()
        _log.warning(
            "%s of run %s was lost with %d workers: it is started beside no other such call",
            *(activity.info().activity_type, activity.info().workflow_id, starts),
        )
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False


def starts_before(offer: Offer | None) -> int:
    """Return how often the call of this activity was started by workers that were lost with it."""
    if offer is not None:
        return starts_so_far()
    details = activity.info().heartbeat_details
    if details and is_count_of_starts(details[0]):
        return int(details[0]["starts"])
    return min(activity.info().attempt - 1, FREE_STARTS)  # Later starts are counted; other attempts have waited.


async def count_suspect() -> dict[str, Any]:
    """Record one more start before it happens, so that waiting does not count; the detail that later beats begin with.

    Raises RPCError.
    """
    counted = {"event": "tool_starts", "starts": starts_before(None) + 1}
    handle = activity.client().get_async_activity_handle(task_token=activity.info().task_token)
    await handle.heartbeat(counted, *last_heartbeat(is_counted=False))
    return counted


def _later() -> ApplicationError:
    info = activity.info()
    waited = (info.current_attempt_scheduled_time - info.scheduled_time).total_seconds()
    return ApplicationError(
        "It was lost with several workers, and waits until another such call has ended here",
        type=SUSPECT_WAITS,
        next_retry_delay=timedelta(seconds=min(max(FIRST_WAIT, GROWTH * waited), LONGEST_WAIT)),
        category=ApplicationErrorCategory.BENIGN,
    )
