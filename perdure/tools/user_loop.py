"""Runs user code where it can't block the worker: plain functions in threads, async ones on their
own loop.

A worker whose event loop is blocked counts as lost after a few seconds, with all its current work.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
from collections import deque
from collections.abc import AsyncIterator, Callable
from functools import partial
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, ref

from pydantic_core import to_json

from ..redaction import get_logger
from ..tool_calls import ToolProgress
from .context import ToolContext, context_with
from .threads import Blocker, Ended, LoopThread, end_in_thread, watchdog

_log = get_logger("perdure.tools")

CLEANUP_SECONDS = 1.0
"""Seconds to wait for cancelled code. Code that continues after that is abandoned."""
LEFT_SECONDS = 10.0
"""Seconds after which a loop is abandoned that another call than the timed-out one blocks."""

Call = Callable[[], Any]
Finish = Callable[[Any], Any] | None
USER_CODE = "the event loop of tools and guardrails"


class BlockedLoop(NamedTuple):
    """Why a cancelled call continues, or never began: its event loop is blocked."""

    text: str
    is_blocker: bool
    """Whether the call itself blocks it."""
    has_begun: bool = True


class UserLoop:
    """The event loop for async user code: one in its own thread, from the first use on, or a given
    one.

    All user code shares one loop, so that tools can share clients, locks and queues. If a call
    blocks perdure's own loop beyond its time, the loop is left to that call; calls that have not
    begun, and later ones, run on a new loop.
    """

    def __init__(
        self, given: asyncio.AbstractEventLoop | None = None, *, name: str = "perdure-user-code"
    ) -> None:
        self._given = given
        self._name = name
        self._own: LoopThread | None = None
        self._left: list[LoopThread] = []
        self._awaited: set[_Execution] = set()
        self._holders = 0
        self._lock = Lock()

    def get(self) -> asyncio.AbstractEventLoop:
        """Return the loop, running. Raises RuntimeError if a given loop is not running."""
        if self._given is not None:
            if not self._given.is_running():
                raise RuntimeError(
                    "the event loop that was passed as tool_loop is not running: keep it running"
                )
            return self._given
        with self._lock:
            if self._own is None or not self._own.is_alive:
                self._own = LoopThread(self._name, USER_CODE)
            return self._own.loop

    async def end_of(
        self, call: Call, title: str, *, is_async: bool, finish: Finish = None
    ) -> Ended:
        """Run the call, then `finish` with its value, and return how that ended.

        `title` names the call in thread lists and logs; the names of tasks that it waits for
        follow, each after " and ".

        Raises the errors of `get`, and CancelledError when the caller is cancelled.
        """
        if not is_async:
            ended = await end_in_thread(partial(_finish_plain, call, finish), title)
            if not inspect.isawaitable(ended.value):
                return ended
            call = partial(_value_of, ended)
        return await self._end_of_async(partial(_finish_async, call, finish), title)

    async def _end_of_async(self, call: Call, title: str) -> Ended:
        ended = _NOT_BEGUN
        while ended is _NOT_BEGUN:
            loop = self.get()
            try:
                ended = await end_on(loop, call, title, self._awaited)
            except asyncio.CancelledError as cancelled:
                if unheard := blocked_loop_in(cancelled):
                    self._leave_blocked_loop(loop, is_blocker=unheard.is_blocker)
                raise
        return ended

    def _leave_blocked_loop(self, loop: asyncio.AbstractEventLoop, *, is_blocker: bool) -> None:
        blocker = watchdog.what_blocks(loop)
        if blocker is None or not (is_blocker or blocker.seconds > LEFT_SECONDS):
            return
        with self._lock:
            if self._own is None or self._own.loop is not loop:
                return
            self._left.append(self._own)
            self._own = None
        for execution in [*self._awaited]:
            execution.leave(loop)
        _log.warning(
            "%s is left to %s, which blocks it%s: another one takes its place. Clients, locks and "
            "queues that were used on the old one can't be used on it",
            *(USER_CODE, blocker.task, blocker.at),
        )

    @contextlib.asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Keep the loop usable while the block runs: when the last holder leaves, its thread
        ends.
        """
        with self._lock:
            self._holders += 1
        self._on_given(watchdog.watch, self._given, USER_CODE)
        try:
            yield
        finally:
            self._on_given(watchdog.forget, self._given)
            await self._leave()

    def _on_given(self, function: Callable[..., None], *arguments: Any) -> None:
        if self._given is not None:
            with contextlib.suppress(RuntimeError):  # closed
                self._given.call_soon_threadsafe(function, *arguments)

    async def _leave(self) -> None:
        with self._lock:
            self._holders -= 1
            closing = None if self._holders else self._own
            self._own = self._own if self._holders else None
            left, self._left = ([], self._left) if self._holders else (self._left, [])
        for blocked in left:
            blocked.leave()
        if closing is not None:
            await closing.close()


class ThisLoop(UserLoop):
    """The caller's event loop: for runs in one process, without heartbeats."""

    async def _end_of_async(self, call: Call, title: str) -> Ended:
        try:
            return Ended(value=await call())
        except KeyboardInterrupt:
            raise
        except asyncio.CancelledError as raised:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return Ended(raised=raised)
        except BaseException as raised:
            return Ended(raised=raised)


def _finish_plain(call: Call, finish: Finish) -> Any:
    value = call()
    return value if finish is None or inspect.isawaitable(value) else finish(value)


async def _finish_async(call: Call, finish: Finish) -> Any:
    value = call()
    if inspect.isawaitable(value):
        value = await value
    return value if finish is None else finish(value)


def _value_of(ended: Ended) -> Any:
    return ended.value


_NOT_BEGUN = Ended(raised=RuntimeError("the call has not begun, and never will"))


async def end_on(
    loop: asyncio.AbstractEventLoop,
    call: Callable[[], Any],
    title: str,
    awaited: set[_Execution] | None = None,
) -> Ended:
    """Return how the coroutine of `call` ends, as a task of that name on `loop`, with the caller's
    context variables.

    When the caller is cancelled, so is the task. If the task does not end within `CLEANUP_SECONDS`,
    or ends by cancellation, this raises CancelledError; otherwise its end counts. `blocked_loop_in`
    returns, from the error, whether a blocked loop kept the cancellation from the task.
    """
    execution = _Execution(call, title, loop)
    awaited = set() if awaited is None else awaited
    awaited.add(execution)
    _mailbox_of(loop).put(execution.start)
    try:
        return await execution.done
    except asyncio.CancelledError as cancelled:
        with contextlib.suppress(RuntimeError):  # The loop was closed: nothing runs there any more.
            loop.call_soon_threadsafe(execution.cancel)
        ended = await execution.end_within(CLEANUP_SECONDS)
        if not execution.is_heard and (blocker := watchdog.what_blocks(loop)):
            cancelled.args = (execution.unheard(blocker),)
        if ended is None or ended is _NOT_BEGUN or isinstance(ended.raised, asyncio.CancelledError):
            raise
        return ended
    finally:
        awaited.discard(execution)


def blocked_loop_in(cancelled: BaseException | None) -> BlockedLoop | None:
    """Return why a cancellation did not reach its call; None if nothing blocks the call's event
    loop.
    """
    first = cancelled.args[0] if cancelled is not None and cancelled.args else None
    return first if isinstance(first, BlockedLoop) else None


class _Mailbox:
    """Hands calls from other threads to an event loop, in order, and wakes the loop once for all
    pending calls.

    Waking a loop takes longer than most of the calls.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # Not the loop itself, which the table of mailboxes would keep alive.
        self._loop = ref(loop)
        self._calls: deque[Callable[[], None]] = deque()
        self._is_awaited = False

    def put(self, call: Callable[[], None]) -> None:
        """Have the loop make the call. Raises RuntimeError if the loop is closed."""
        loop = self._loop()
        if loop is None or loop.is_closed():
            raise RuntimeError("Event loop is closed")
        self._calls.append(call)
        if not self._is_awaited:
            self._is_awaited = True
            loop.call_soon_threadsafe(self._run_calls)

    def _run_calls(self) -> None:
        self._is_awaited = False  # first: later calls are found here, or wake the loop again
        while self._calls:
            self._calls.popleft()()


_mailboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, _Mailbox] = WeakKeyDictionary()


def _mailbox_of(loop: asyncio.AbstractEventLoop) -> _Mailbox:
    """Return the mailbox of that loop. Callable from any thread."""
    return _mailboxes.get(loop) or _mailboxes.setdefault(loop, _Mailbox(loop))


class _Execution:
    """One call on its way to another event loop, where it becomes a task, and its end on the way
    back.
    """

    def __init__(
        self, call: Callable[[], Any], title: str, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._call = call
        self._title = title
        self._loop = loop
        self._context = contextvars.copy_context()
        caller = asyncio.get_running_loop()
        self._caller = _mailbox_of(caller)
        self._task: asyncio.Task[None] | None = None
        self._begun = Lock()
        """Locked for good by what comes first: the call's beginning, or `leave`."""
        self.is_heard = False
        """Whether the cancellation has reached the loop."""
        self._ended = Ended(raised=asyncio.CancelledError())
        self.done: asyncio.Future[Ended] = caller.create_future()
        """The call's end. Cancelling a waiter also cancels this future, but not the execution."""

    def start(self) -> None:
        self._task = self._loop.create_task(self._run(), name=self._title, context=self._context)
        self._task.add_done_callback(self._hand_back)

    def cancel(self) -> None:
        self.is_heard = True
        assert self._task is not None  # the loop makes calls in order
        self._task.cancel()

    def leave(self, loop: asyncio.AbstractEventLoop) -> None:
        """End the call as `_NOT_BEGUN` if it waits for that loop. Callable from any thread."""
        if self._loop is loop and self._begun.acquire(blocking=False):
            self._ended = _NOT_BEGUN
            self._hand_back()

    async def end_within(self, seconds: float) -> Ended | None:
        """Return how it ends, even if `done` was cancelled; None if it takes longer."""
        if self.done.cancelled():
            self.done = asyncio.get_running_loop().create_future()
        await asyncio.wait([self.done], timeout=seconds)
        return self.done.result() if self.done.done() else None

    def unheard(self, blocker: Blocker) -> BlockedLoop:
        """Describe the call, which the cancellation did not reach."""
        task = asyncio.current_task(self._loop)
        waits_for = self._title.split(" and ")[1:]
        if task is not None and (task is self._task or task.get_name() in waits_for):
            return BlockedLoop(f"it blocks the event loop{blocker.at}", is_blocker=True)
        # Not the run: it may be another user's.
        what = f"the event loop is blocked by {blocker.task.partition(' of run ')[0]}{blocker.at}"
        begun = self._begun.locked() and self._ended is not _NOT_BEGUN
        return BlockedLoop(
            what if begun else f"it never started: {what}", is_blocker=False, has_begun=begun
        )

    async def _run(self) -> None:
        if not self._begun.acquire(blocking=False):
            return
        # Nothing leaves the task: SystemExit and KeyboardInterrupt would end the loop, and a task
        # that cancels itself would count as cancelled by its caller.
        try:
            self._ended = Ended(value=await self._call())
        except BaseException as raised:
            self._ended = Ended(raised=raised)
        # Now, not in the next round of the loop: only a task that never began needs the callback to
        # report its end.
        assert self._task is not None
        self._task.remove_done_callback(self._hand_back)
        self._hand_back()

    def _hand_back(self, task: asyncio.Task[None] | None = None) -> None:
        with contextlib.suppress(
            RuntimeError
        ):  # The caller's loop was closed meanwhile: nothing waits any more.
            self._caller.put(self._deliver)

    def _deliver(self) -> None:
        if not self.done.done():
            self.done.set_result(self._ended)


class execution_context:
    """Provides a context for an execution, with functions that are callable from any thread, also
    afterwards.

    Sets the fields in `more`, too.

    Raises RuntimeError without a running event loop, for which the functions of `context` are.
    """

    def __init__(self, context: ToolContext, **more: Any) -> None:
        self._given, self._more = context, more
        self._loop = asyncio.get_running_loop()
        self._has_ended = False
        self._latest: ToolProgress | None = None
        self._is_due = False

    def __enter__(self) -> ToolContext:
        return context_with(
            self._given,
            heartbeat=self._heartbeat,
            report=self._report,
            is_cancelled=self._is_cancelled,
            **self._more,
        )

    def __exit__(self, *error: object) -> None:
        """End the execution: ignore later reports, and show it as cancelled."""
        if not self._has_ended:
            self._tell_latest()
            self._has_ended = True

    def _is_cancelled(self) -> bool:
        return self._has_ended or self._given.is_cancelled()

    def _heartbeat(self, *details: object) -> None:
        _require_json(details)
        if not self._has_ended:
            self._call_soon(self._given.heartbeat, *details)

    def _report(self, progress: ToolProgress) -> None:
        """Forward the latest progress only: a tool may report in each turn of a loop, and the event
        loop has other work.
        """
        self._latest = progress
        if asyncio._get_running_loop() is self._loop:
            self._tell_latest()
        elif not self._is_due:
            self._is_due = True
            self._call_soon(self._tell_latest)

    def _tell_latest(self) -> None:
        self._is_due = False
        latest, self._latest = self._latest, None
        if latest is not None and not self._has_ended:
            self._given.report(latest)

    def _call_soon(self, call: Callable[..., None], *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # The loop was closed: nothing waits any more.
            self._loop.call_soon_threadsafe(call, *arguments)


def _require_json(details: tuple[object, ...]) -> None:
    """Raise in the tool's own call: a heartbeat that can't be sent would end the execution and
    repeat it.

    Raises TypeError.
    """
    try:
        to_json([detail for detail in details if not isinstance(detail, bytes)])
    except (ValueError, RecursionError) as error:
        raise TypeError(f"heartbeat details need a JSON form: {error}") from None
