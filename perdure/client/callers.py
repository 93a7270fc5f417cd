"""What a caller awaits: cancellation and steering passed on, the answer's text as it comes, plain functions."""

from __future__ import annotations

import asyncio
import functools
import logging
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
            while self._run and not await self._tell(self._run):
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

    async def _tell(self, run: RunHandle) -> bool:
        """Tell the run what there is to tell; False when the server is away, and it is worth another try."""
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


def held_back_characters(agent: Agent, stream_after: int | None, *, is_checked: bool) -> int | None:
    """Return how many characters of a text are held back until it is known for the answer; None for all of them.

    Whoever does not mind text that precedes tool calls says so by `stream_after`. Raises ValueError for a negative one.
    """
    if stream_after is not None and stream_after < 0:
        raise ValueError(f"stream_after={stream_after}: expected a number of characters, from 0")
    if is_checked or agent.outputs:
        return None
    return stream_after if agent.tools else 0


def text_after(event: RunEvent, text: str) -> str:
    """Return the model's text in an iteration after this event. Text before tool calls comes with `llm_complete`."""
    if event.type == "llm_complete":
        return str(event.data.get("text", text))
    return text + event.data["token"] if event.type == "token" else text


class AnswerText:
    """Picks the text of the final answer out of a run's events.

    What was given can't be taken back. Where it turns out not to belong to the answer, because the model was called
    once more, the answer follows after an empty line.
    """

    def __init__(self, held_back: int | None) -> None:
        self._held_back = held_back
        self._iteration = 0
        self._text = ""
        self._given = ""

    def more(self, event: RunEvent) -> str:
        """Return what is to be given after this event; "" for nothing."""
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
    """Yield what `call` gives to the function that it is called with, while it runs as a task; then raises what it
    raises.

    The token that it gets is cancelled with `cancel`, and when nobody reads on.
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
            task.exception()  # Whoever has left does not want to know.


P = ParamSpec("P")
T = TypeVar("T", default=Any)
U = TypeVar("U")


def blocking_form(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Return a plain function with the parameters of a coroutine function named `…_async`; it waits for the result.

    Where that is an async generator, it is a plain one here.
    May be called in a thread whose event loop is running. Raises what the coroutine raises.
    """

    @functools.wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> T:
        result = wait_for_result(function(*arguments, **named))
        return cast(T, _iterate(result)) if isinstance(result, AsyncGenerator) else result

    call.__name__ = call.__qualname__ = function.__name__.removesuffix("_async")
    call.__doc__ = f"`{function.__name__}`, waited for: works also in a thread whose event loop is running.\n\n    "
    call.__doc__ += function.__doc__ or ""
    return call


def _iterate(items: AsyncGenerator[T, None]) -> Iterator[T]:
    """Items, from an event loop in another thread, which goes on while the caller does something with an item."""
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
    """Coroutine's result, from an event loop of its own; in another thread when this one's loop is running."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1, "perdure-blocking-call") as thread:
        return thread.submit(asyncio.run, coroutine).result()
