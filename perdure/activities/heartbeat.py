"""An activity under way: tells Temporal that it is alive, and watchers what a model says; learns of a cancellation."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar, copy_context

from temporalio import activity
from temporalio.api.failure.v1 import Failure
from temporalio.client import WorkflowExecutionDescription
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from ..errors import ConfigurationError
from ..excerpt import one_line
from ..logs import get_logger
from ..payloads.failures import text_of
from ..protocol.activities import NOT_HERE, STREAM_SECONDS, StreamedText
from ..redaction import redact, redactor

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
    """Whether the run was cancelled since this activity's first attempt was lost: then nothing may start any more.

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
    """How the attempt before this one has failed; None where the server does not say."""
    for pending in described.raw_description.pending_activities:
        if pending.activity_id == activity.info().activity_id and pending.HasField("last_failure"):
            return pending.last_failure
    return None


async def _why(failure: Failure | None) -> str:
    """Why the attempt before this one has failed; "" where that is not known."""
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
