"""Threads for plain functions, an event loop in a thread, and the watchdog for blocked loops."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import sys
import sysconfig
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, cast

from ..redaction import get_logger


class Ended(NamedTuple):
    """The end of a call of user code: its value, or its exception."""

    value: Any = None
    raised: BaseException | None = None

    def result(self) -> Any:
        """Return the value.

        Raises the code's Exception; anything else, such as its KeyboardInterrupt or CancelledError,
        as a RuntimeError: a CancelledError would cancel the caller itself.
        """
        if self.raised is None:
            return self.value
        if isinstance(self.raised, Exception) and not isinstance(self.raised, StopIteration):
            raise self.raised
        raise RuntimeError(f"{type(self.raised).__name__} {self.raised}".strip()) from self.raised


async def end_in_thread(call: Callable[[], Any], name: str) -> Ended:
    """Return how `call` ends, in a daemon thread of that name, with the caller's context variables.

    The thread serves only this call. In a pool, a hanging function would occupy a place for good,
    and keep the process from ending. When the caller is cancelled or runs out of time, the function
    continues, and its end is ignored.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Ended] = loop.create_future()

    def deliver(ended: Ended) -> None:
        if not done.done():
            done.set_result(ended)

    def work() -> None:
        ended = _call(call)
        with contextlib.suppress(
            RuntimeError
        ):  # The loop was closed meanwhile: nothing waits any more.
            loop.call_soon_threadsafe(deliver, ended)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), name=name, daemon=True).start()
    return await done


def _call(call: Callable[[], Any]) -> Ended:
    try:
        return Ended(value=call())
    except BaseException as raised:
        # Also SystemExit and KeyboardInterrupt: in this thread only the function itself can have
        # raised them.
        return Ended(raised=raised)


BLOCKED_SECONDS = 1.0
"""A loop that has not answered for this many seconds is blocked."""
LOOK_SECONDS = 0.25
"""Seconds between two looks at the loops."""
ADVICE = "Await slow operations, or make it a plain function, which runs in its own thread"

_PACKAGE = str(Path(__file__).parents[1])
_IMPORT = "<frozen importlib"
_LIBRARIES = (
    sysconfig.get_path("stdlib"),
    sysconfig.get_path("purelib"),
    sysconfig.get_path("platlib"),
    _PACKAGE,
    "<",
)


class Blocker(NamedTuple):
    """The code that keeps a loop from answering."""

    task: str
    """The task's name."""
    line: traceback.FrameSummary | None
    """The innermost line of the user's code; None without one, or during an import."""
    seconds: float
    """Seconds for which the loop has not answered."""

    @property
    def at(self) -> str:
        """` at FILE:LINE`, the file without its folder; "" without a line."""
        return f" at {Path(self.line.filename).name}:{self.line.lineno}" if self.line else ""


class Watchdog:
    """Watches event loops from one thread, which exists while there are any.

    It keeps asking each loop for a sign of life. It can't detect code that holds the interpreter's
    lock for long, as some extension modules do: nothing else in the process runs then, not even the
    watchdog.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pulses: dict[asyncio.AbstractEventLoop, _Pulse] = {}
        self._thread: threading.Thread | None = None

    def watch(self, loop: asyncio.AbstractEventLoop, purpose: str) -> None:
        """Watch a loop until `forget` is called as often as this. Call it in the loop's thread."""
        with self._lock:
            self._pulses.setdefault(loop, _Pulse(loop, purpose)).watchers += 1
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._watch_loops, name="perdure-watchdog", daemon=True
                )
                self._thread.start()

    def forget(self, loop: asyncio.AbstractEventLoop) -> None:
        """Undo one `watch`; ignore a loop that is not watched."""
        with self._lock:
            pulse = self._pulses.get(loop)
            if pulse is not None:
                pulse.watchers -= 1
                if not pulse.watchers:
                    del self._pulses[loop]

    def what_blocks(self, loop: asyncio.AbstractEventLoop) -> Blocker | None:
        """Return the code that blocks a loop now; None for a loop that is not watched."""
        with self._lock:
            pulse = self._pulses.get(loop)
        return pulse.blocker() if pulse is not None else None

    @contextlib.contextmanager
    def watch_running_loop(self, purpose: str) -> Iterator[None]:
        """Watch the running event loop while the block runs. Raises RuntimeError without a running
        loop.
        """
        loop = asyncio.get_running_loop()
        self.watch(loop, purpose)
        try:
            yield
        finally:
            self.forget(loop)

    def _watch_loops(self) -> None:
        while pulses := self._watched_loops():
            for pulse in pulses:
                pulse.look(time.monotonic())
            time.sleep(LOOK_SECONDS)

    def _watched_loops(self) -> list[_Pulse]:
        with self._lock:
            for closed in [loop for loop in self._pulses if loop.is_closed()]:
                del self._pulses[closed]
            if not self._pulses:
                self._thread = None
            return list(self._pulses.values())


class _Pulse:
    """Signs of life of one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, purpose: str) -> None:
        self.watchers = 0
        self._loop = loop
        self._purpose = purpose
        self._thread_id = threading.get_ident()
        self._answered = threading.Event()
        self._answered.set()
        self._asked_at = self._looked_at = time.monotonic()
        self._is_reported = False
        self._seen: list[tuple[int, int] | None] = []
        """At each look: the task, and the outermost frame of the user's code, which is the same
        throughout one step of a task; None outside the user's code."""

    def look(self, now: float) -> None:
        """Ask for a sign of life after the last one has come; otherwise report, once, a loop that
        is silent for too long.
        """
        if now - self._looked_at > BLOCKED_SECONDS:
            self._asked_at = (
                now  # The whole process was suspended: by a sleeping machine, or a signal.
            )
        self._looked_at = now
        if self._answered.is_set():
            self._answered.clear()
            self._asked_at, self._is_reported, self._seen = now, False, []
            with contextlib.suppress(RuntimeError):  # closed meanwhile
                self._loop.call_soon_threadsafe(self._answered.set)
        elif not self._is_reported and self._loop.is_running():
            self._see()
            is_one_step = len(self._seen) > 1 and len(set(self._seen)) == 1
            if now - self._asked_at > BLOCKED_SECONDS and is_one_step and self._seen[0]:
                self._is_reported = True
                self._report()

    def blocker(self) -> Blocker | None:
        """Return the code that the loop is in; None if its thread has ended."""
        frame = sys._current_frames().get(self._thread_id)
        if frame is None:
            return None
        task = asyncio.current_task(self._loop)
        own = _own_frames(frame)
        line = traceback.extract_stack(own[0], limit=1)[0] if own else None
        seconds = 0.0 if self._answered.is_set() else time.monotonic() - self._asked_at
        return Blocker(task.get_name() if task else "a callback", line, seconds)

    def _see(self) -> None:
        frame = sys._current_frames().get(self._thread_id)
        own = _own_frames(frame) if frame else []
        self._seen.append((id(asyncio.current_task(self._loop)), id(own[-1])) if own else None)

    def _report(self) -> None:
        blocker = self.blocker()
        if blocker is None or blocker.line is None:
            return
        line = blocker.line
        _log.warning(
            "%s has not answered for more than %g s: %s blocks it at %s:%s in %s: %s. %s",
            *(self._purpose, BLOCKED_SECONDS, blocker.task),
            *(line.filename, line.lineno, line.name, line.line, ADVICE),
        )


def _own_frames(innermost: FrameType) -> list[FrameType]:
    """Return the frames of the user's own code that the loop is in, the innermost first; [] during
    an import.
    """
    own, frame = [], cast("FrameType | None", innermost)
    while frame is not None and frame.f_code.co_name != "_run_once":
        if frame.f_code.co_filename.startswith(_IMPORT):
            return []
        if not frame.f_code.co_filename.startswith(_LIBRARIES):
            own.append(frame)
        frame = frame.f_back
    return own


watchdog = Watchdog()
"""The watchdog of this process: a loop shared by several workers is reported once."""

_log = get_logger("perdure.tools")

CLOSE_SECONDS = 5.0
"""Seconds to wait for the end of the thread: blocking code can't be ended."""
TASK_SECONDS = 1.0
"""Seconds to wait for tasks that are cancelled at the loop's end."""


class LoopThread:
    """A daemon thread that runs an event loop until it is closed, regardless of exceptions on the
    loop.

    `purpose` is the loop's name in the watchdog's log.
    """

    def __init__(self, name: str, purpose: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._purpose = purpose
        self._is_closing = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Return whether the loop runs: not after `close`, and not in a forked process."""
        return self._thread.is_alive() and not self._is_closing

    async def close(self) -> None:
        """Cancel the tasks on the loop, and end the thread; abandon a blocked one."""
        self._is_closing = True
        self.loop.call_soon_threadsafe(self.loop.stop)
        await end_in_thread(partial(self._thread.join, CLOSE_SECONDS), "closing")
        if self._thread.is_alive():
            _log.warning("%s is blocked, and is abandoned", self._purpose)

    def leave(self) -> None:
        """End the thread as soon as nothing blocks it, without waiting for that."""
        self._is_closing = True
        with contextlib.suppress(RuntimeError):  # closed
            self.loop.call_soon_threadsafe(self.loop.stop)

    def _work(self) -> None:
        asyncio.set_event_loop(self.loop)
        watchdog.watch(self.loop, self._purpose)
        while not self._is_closing:
            try:
                self.loop.run_forever()
            except BaseException:
                # A callback raised SystemExit or KeyboardInterrupt: meant for a program that has
                # only this loop.
                _log.exception("%s tried to end the process, which continues", self._purpose)
        watchdog.forget(self.loop)
        with contextlib.suppress(BaseException):
            self.loop.run_until_complete(_end_tasks())
        self.loop.close()


async def _end_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=TASK_SECONDS)
    await asyncio.get_running_loop().shutdown_asyncgens()
