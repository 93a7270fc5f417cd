"""Notices event loops that do not answer, and logs which line of which task blocks them."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import sysconfig
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ..logs import get_logger

_log = get_logger("perdure.tools")

BLOCKED_SECONDS = 1.0
"""A loop that has not answered for this long is blocked."""
LOOK_SECONDS = 0.25
"""Between two looks at the loops."""
ADVICE = "Await what takes long, or make it a plain function: those run in threads of their own"

_PACKAGE = str(Path(__file__).parents[1])
_LIBRARIES = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), _PACKAGE, "<")


class Blocker(NamedTuple):
    """What a loop does instead of answering."""

    task: str
    """The task's name."""
    line: traceback.FrameSummary
    seconds: float
    """How long the loop has not answered."""

    @property
    def place(self) -> str:
        """The file, without its folder, and the line."""
        return f"{Path(self.line.filename).name}:{self.line.lineno}"


class Watchdog:
    """Watches event loops from one thread, which is there for as long as there are any.

    It asks each loop for a sign of life all the time. It can't see what holds the interpreter's lock for long, as
    some extension modules do: nothing else in the process runs then, the watchdog neither.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pulses: dict[asyncio.AbstractEventLoop, _Pulse] = {}
        self._thread: threading.Thread | None = None

    def watch(self, loop: asyncio.AbstractEventLoop, purpose: str) -> None:
        """Watch a loop until each call of this has its `forget`; to be called in the loop's thread."""
        with self._lock:
            self._pulses.setdefault(loop, _Pulse(loop, purpose)).watchers += 1
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._look, name="perdure-watchdog", daemon=True)
                self._thread.start()

    def forget(self, loop: asyncio.AbstractEventLoop) -> None:
        """Undo one `watch`; nothing happens for a loop that is not watched."""
        with self._lock:
            pulse = self._pulses.get(loop)
            if pulse is not None:
                pulse.watchers -= 1
                if not pulse.watchers:
                    del self._pulses[loop]

    def what_blocks(self, loop: asyncio.AbstractEventLoop) -> Blocker | None:
        """What a loop is at now that does not answer; None for one that is not watched."""
        with self._lock:
            pulse = self._pulses.get(loop)
        return pulse.blocker() if pulse is not None else None

    @contextlib.contextmanager
    def watching(self, purpose: str) -> Iterator[None]:
        """Watch the running event loop for as long as the block runs. Raises RuntimeError where none is running."""
        loop = asyncio.get_running_loop()
        self.watch(loop, purpose)
        try:
            yield
        finally:
            self.forget(loop)

    def _look(self) -> None:
        while pulses := self._watched():
            for pulse in pulses:
                pulse.look(time.monotonic())
            time.sleep(LOOK_SECONDS)

    def _watched(self) -> list[_Pulse]:
        with self._lock:
            for closed in [loop for loop in self._pulses if loop.is_closed()]:
                del self._pulses[closed]
            if not self._pulses:
                self._thread = None
            return list(self._pulses.values())


class _Pulse:
    """The signs of life of one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, purpose: str) -> None:
        self.watchers = 0
        self._loop = loop
        self._purpose = purpose
        self._thread_id = threading.get_ident()
        self._answered = threading.Event()
        self._answered.set()
        self._asked_at = self._looked_at = time.monotonic()
        self._is_reported = False

    def look(self, now: float) -> None:
        """Ask for a sign of life when the last one has come, else report, once, a loop that is silent for too long."""
        if now - self._looked_at > BLOCKED_SECONDS:
            self._asked_at = now  # The whole process stood still: a machine that slept, a signal.
        self._looked_at = now
        if self._answered.is_set():
            self._answered.clear()
            self._asked_at, self._is_reported = now, False
            with contextlib.suppress(RuntimeError):  # closed meanwhile
                self._loop.call_soon_threadsafe(self._answered.set)
        elif now - self._asked_at > BLOCKED_SECONDS and not self._is_reported and self._loop.is_running():
            self._is_reported = True
            self._report()

    def blocker(self) -> Blocker | None:
        """What the loop is at; None when its thread has ended."""
        frame = sys._current_frames().get(self._thread_id)
        if frame is None:
            return None
        task = asyncio.current_task(self._loop)
        line = _line_of_the_user(traceback.extract_stack(frame))
        seconds = 0.0 if self._answered.is_set() else time.monotonic() - self._asked_at
        return Blocker(task.get_name() if task else "a callback", line, seconds)

    def _report(self) -> None:
        blocker = self.blocker()
        if blocker is None:
            return
        line = blocker.line
        _log.warning(
            "%s has not answered for more than %g s: %s blocks it at %s:%s in %s: %s. %s",
            *(self._purpose, BLOCKED_SECONDS, blocker.task),
            *(line.filename, line.lineno, line.name, line.line, ADVICE),
        )


def _line_of_the_user(stack: Sequence[traceback.FrameSummary]) -> traceback.FrameSummary:
    """Where the user's own code is; where there is none of it, the innermost line."""
    return next((line for line in reversed(stack) if not line.filename.startswith(_LIBRARIES)), stack[-1])


watchdog = Watchdog()
"""The one of this process: loops that several workers share are reported once."""
