"""Connects a run to its waiting caller: forwards cancellation and steering, streams the answer,
wraps for plain functions.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Any, ParamSpec, cast

from temporalio.service import RPCError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor
from typing_extensions import TypeVar

from ..agents import Agent
from ..errors import PayloadTooLargeError, RunNotFound
from ..events import RunEvent
from ..tools.threads import LoopThread
from .handle import RunHandle
from .reading.watch import RETRY_SECONDS, is_away
from .tokens import CancellationToken, Steering

logger = logging.getLogger("perdure")


class Relay:
    """Forwards a caller's cancellations and steering messages to one run, in order.

    When the run has ended, the messages that it did not receive, or that are too large to send, go
    back into the steering object.
    """

    def __init__(self, cancel: CancellationToken | None, steering: Steering | None) -> None:
        self._cancel = cancel or CancellationToken()
        self._steering = steering or Steering()
        self._run: RunHandle | None = None
        self._has_cancelled = False
        self._unsendable: list[str] = []
        self._unanswered: tuple[str, int] | None = None
        """The id of the message in transit, and the number of its texts."""
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def to(self, run: RunHandle) -> AsyncIterator[None]:
        """Forward to the run while the block runs, beginning with everything sent earlier.

        Enter it on the event loop of the callers of `flush`.
        """
        self._run = run
        loop, has_news = asyncio.get_running_loop(), asyncio.Event()

        def notify() -> None:
            # A caller may cancel or steer long after the call has returned, when the loop is
            # closed.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(has_news.set)

        await self.flush()
        relay = asyncio.create_task(self._flush_on(has_news))
        self._cancel.listen(notify)
        self._steering.listen(notify)
        try:
            yield
        finally:
            self._cancel.forget(notify)
            self._steering.listen(None)
            await self._end(relay)

    async def flush(self) -> None:
        """Wait until the run has received everything sent before this call."""
        async with self._lock:
            while self._run and not await self._send_pending(self._run):
                await asyncio.sleep(RETRY_SECONDS)

    async def _flush_on(self, has_news: asyncio.Event) -> None:
        while True:
            await has_news.wait()
            has_news.clear()
            await self.flush()

    async def _end(self, relay: asyncio.Task[None]) -> None:
        self._run = None
        async with self._lock:  # A message being sent arrives first, or is queued again.
            relay.cancel()
        with suppress(asyncio.CancelledError):
            await relay
        self._steering.put_back(self._unsendable)

    async def _send_pending(self, run: RunHandle) -> bool:
        """Send the run the pending messages and cancellation; return False if the server is
        unreachable and the caller should try again.
        """
        texts = self._steering.drain()
        try:
            await self._steer(run, texts)
            if self._cancel.is_cancelled and not self._has_cancelled:
                await run.cancel("the caller's CancellationToken")
                self._has_cancelled = True
        except RunNotFound:
            logger.info("the run %s has ended: the message came too late", run.id)
            self._run = None
        except RPCError as error:
            logger.warning("the message did not reach the run %s: %s", run.id, error)
            return not is_away(error)
        finally:
            self._steering.put_back(texts)
        return True

    async def _steer(self, run: RunHandle, texts: list[str]) -> None:
        """Send the texts, and remove from the list those that need no retry.

        After a lost answer, the next call sends the same message under the same id, of which the
        run reads one.
        """
        while texts:
            id, count = self._unanswered = self._unanswered or (uuid.uuid4().hex, len(texts))
            try:
                await run.steer(texts[:count], message_id=id)
            except PayloadTooLargeError as error:
                if count > 1:
                    self._unanswered = (id, 1)
                    continue
                logger.error("a steering message for the run %s was not sent: %s", run.id, error)
                self._unsendable += texts[:1]
            del texts[:count]
            self._unanswered = None


class Flushing(Interceptor):
    """Makes a worker await `flush` before each activity completes, so that the run sees earlier
    messages before the result.
    """

    def __init__(self, flush: Callable[[], Awaitable[None]]) -> None:
        self._flush = flush

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _FlushingActivity(next, self._flush)


class _FlushingActivity(ActivityInboundInterceptor):
    def __init__(
        self, next: ActivityInboundInterceptor, flush: Callable[[], Awaitable[None]]
    ) -> None:
        super().__init__(next)
        self._flush = flush

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        try:
            return await self.next.execute_activity(input)
        finally:
            await self._flush()


def held_back_characters(agent: Agent, stream_after: int | None, *, is_checked: bool) -> int | None:
    """Return how many characters of a text to hold back until it is known to be the answer; None
    for all of them.

    A caller that accepts text before tool calls sets `stream_after`. Raises ValueError for a
    negative one.
    """
    if stream_after is not None and stream_after < 0:
        raise ValueError(f"stream_after={stream_after}: expected a number of characters, from 0")
    if is_checked or agent.outputs:
        return None
    return stream_after if agent.tools else 0


def text_after(event: RunEvent, text: str) -> str:
    """Return an iteration's model text after this event. Text that precedes tool calls comes with
    `llm_complete`.
    """
    if event.type == "llm_complete":
        return str(event.data.get("text", text))
    return text + event.data["token"] if event.type == "token" else text


class AnswerText:
    """Extracts the text of the final answer from a run's events.

    Text that was passed on can't be withdrawn. If the model is called once more, so that this text
    was not the answer, the answer follows after an empty line.
    """

    def __init__(self, held_back: int | None) -> None:
        self._held_back = held_back
        self._iteration = 0
        self._text = ""
        self._given = ""

    def more(self, event: RunEvent) -> str:
        """Return the text to pass on after this event; "" for nothing."""
        if event.type == "done":
            return self._catch_up(event.data["response"], is_whole=True)
        if event.type == "text_reset" or event.iteration != self._iteration:
            self._iteration, self._text = event.iteration, ""
        self._text = text_after(event, self._text)
        if event.type not in ("token", "llm_complete") or self._held_back is None:
            return ""
        return self._catch_up(self._text) if len(self._text) > self._held_back else ""

    def _catch_up(self, text: str, *, is_whole: bool = False) -> str:
        given, self._given = self._given, text
        if text.startswith(given):
            return text[len(given) :]
        if given.startswith(text) and not is_whole:
            self._given = given
            return ""
        return f"\n\n{text}"


Give = Callable[[str], None]


async def stream_texts(
    call: Callable[[CancellationToken, Give], Awaitable[object]], cancel: CancellationToken | None
) -> AsyncGenerator[str, None]:
    """Run `call` as a task and yield the texts that it passes to its callback; then raise the error
    of `call`, if any.

    Cancelling through `cancel`, or leaving the iterator early, cancels the token that `call` gets.
    """
    texts: asyncio.Queue[str | None] = asyncio.Queue()
    token = CancellationToken()

    async def work() -> None:
        try:
            await call(token, texts.put_nowait)
        finally:
            texts.put_nowait(None)

    if cancel:
        cancel.listen(token.cancel)
    task = asyncio.create_task(work())
    try:
        while (text := await texts.get()) is not None:
            yield text
        await task
    finally:
        if cancel:
            cancel.forget(token.cancel)
        token.cancel()
        await asyncio.wait([task])
        with suppress(asyncio.CancelledError):
            task.exception()  # The caller has left and does not need the error.


P = ParamSpec("P")
T = TypeVar("T", default=Any)
U = TypeVar("U")


def blocking_form(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Return a blocking function with the parameters of a coroutine function named `…_async`.

    An async generator becomes a plain one. May be called in a thread whose event loop is running.
    Raises the errors of the coroutine.
    """

    @functools.wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> T:
        result = wait_for_result(function(*arguments, **named))
        return cast(T, _iterate(result)) if isinstance(result, AsyncGenerator) else result

    call.__name__ = call.__qualname__ = function.__name__.removesuffix("_async")
    call.__doc__ = (
        f"`{function.__name__}`, waited for: works also in a thread whose event loop is "
        "running.\n\n    "
    )
    call.__doc__ += function.__doc__ or ""
    return call


def _iterate(items: AsyncGenerator[T, None]) -> Iterator[T]:
    """Yield items from an event loop in another thread, which keeps running while the caller
    handles an item.
    """
    thread = LoopThread("perdure-blocking-call", "the event loop of a blocking call")

    def wait(coroutine: Coroutine[Any, Any, U]) -> U:
        return asyncio.run_coroutine_threadsafe(coroutine, thread.loop).result()

    async def next_item() -> list[T]:
        try:
            return [await anext(items)]
        except StopAsyncIteration:
            return []

    try:
        while item := wait(next_item()):
            yield from item
    finally:
        wait(items.aclose())
        wait_for_result(thread.close())


def wait_for_result(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of the coroutine on a new event loop; in another thread if this one's loop
    is running.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1, "perdure-blocking-call") as thread:
        return thread.submit(asyncio.run, coroutine).result()
