"""Asks the person at the terminal one thing at a time, by a keyboard and a console that nothing else writes to."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Protocol, TypeAlias

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from ..text import visible
from .console import say

_BACKGROUND_SECONDS = 0.5


class Keyboard(Protocol):
    """Source of typed lines."""

    def begin(self, prompt: str) -> None:
        """Ask for a line: what was typed before can't be meant for it."""

    async def line(self) -> str | None:
        """Return the next line; None at the end of input."""

    def end(self, typed: str | None) -> None:
        """Stop asking for the line; it was this one, None when there was none."""


class Lines:
    """Reads stdin line by line without blocking, and only in the foreground: a read elsewhere stops the process."""

    def __init__(self) -> None:
        self._lines: asyncio.Queue[str] = asyncio.Queue()
        self._ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._file = sys.stdin.fileno()
        self._typed = b""
        self._again: asyncio.TimerHandle | None = None

    def listen(self) -> None:
        """Begin to read what is typed."""
        self._loop.add_reader(self._file, self._read)

    def leave(self) -> None:
        """Leave the keyboard to others."""
        self._loop.remove_reader(self._file)
        if self._again:
            self._again.cancel()

    def begin(self, prompt: str) -> None:
        """Show the prompt; what was typed before can't be meant for it, and is dropped."""
        say(prompt, end="")
        self._typed = b""
        while not self._lines.empty():
            self._lines.get_nowait()

    async def line(self) -> str | None:
        """Return the next line; None at the end of input."""
        line, ended = asyncio.create_task(self._lines.get()), asyncio.create_task(self._ended.wait())
        try:
            await asyncio.wait([line, ended], return_when=asyncio.FIRST_COMPLETED)
            return line.result() if line.done() else None
        finally:
            line.cancel()
            ended.cancel()

    def end(self, typed: str | None) -> None:
        """End the prompt's line, unless the person has."""
        if typed is None:
            say("")

    def _read(self) -> None:
        if os.tcgetpgrp(self._file) != os.getpgrp():
            self._loop.remove_reader(self._file)
            self._again = self._loop.call_later(_BACKGROUND_SECONDS, self.listen)
            return
        try:
            typed = os.read(self._file, 65536)
        except OSError:
            typed = b""
        *lines, self._typed = (self._typed + typed).split(b"\n")
        for line in lines:
            self._lines.put_nowait(line.decode(errors="replace"))
        if not typed:
            self._loop.remove_reader(self._file)
            self._ended.set()


Ask: TypeAlias = Callable[[Callable[[], str]], Awaitable[str | None]]
"""Asks what a function shows, which returns the prompt; gives the line, None at the end of input."""


class Pausable(Protocol):
    """View that writes to the terminal as events happen."""

    def pause(self) -> AbstractContextManager[None]:
        """Within it nothing is written; what was to be written follows afterwards."""


@asynccontextmanager
async def open_terminal(view: Pausable) -> AsyncIterator[Terminal | None]:
    """Within it, a person can be asked; None where there is nobody to ask."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        yield None
        return
    lines = Lines()
    lines.listen()
    try:
        yield Terminal(view, lines)
    finally:
        lines.leave()


class Terminal:
    """Asks for lines. What is urgent interrupts what is being asked, which is asked again afterwards."""

    def __init__(self, view: Pausable, keyboard: Keyboard) -> None:
        self._view = view
        self._keyboard = keyboard
        self._turn = asyncio.Lock()
        self._calm, self._disturbed = asyncio.Event(), asyncio.Event()
        self._calm.set()

    async def ask(self, show: Callable[[], str], *, withdrawn: asyncio.Event) -> str | None:
        """Return the next line that is typed; None when the question is withdrawn before that, or the input has ended.

        `show` writes what is asked, and returns the prompt. It is called again after something urgent.
        """
        while True:
            await self._calm.wait()
            async with self._turn:
                if not self._calm.is_set():
                    continue
                line, was_disturbed = await self._ask(show, withdrawn, self._disturbed)
            if not was_disturbed:
                return line

    @asynccontextmanager
    async def interrupt(self) -> AsyncIterator[Ask]:
        """Within it nothing else is asked or shown; what it yields asks as `ask` does."""
        self._calm.clear()
        self._disturbed.set()
        try:
            async with self._turn:
                with self._view.pause():
                    yield self._ask_now
        finally:
            self._disturbed.clear()
            self._calm.set()

    async def _ask_now(self, show: Callable[[], str]) -> str | None:
        return (await self._ask(show, asyncio.Event(), asyncio.Event()))[0]

    async def _ask(
        self, show: Callable[[], str], withdrawn: asyncio.Event, disturbed: asyncio.Event
    ) -> tuple[str | None, bool]:
        """Return the line, and whether the question was disturbed before there was one."""
        with self._view.pause():
            self._keyboard.begin(show())
            line = asyncio.create_task(self._keyboard.line())
            others = [asyncio.create_task(each.wait()) for each in (withdrawn, disturbed)]
            typed = None
            try:
                await asyncio.wait([line, *others], return_when=asyncio.FIRST_COMPLETED)
                typed = line.result() if line.done() else None
                return typed, not line.done() and not withdrawn.is_set()
            finally:
                self._keyboard.end(typed)
                for each in (line, *others):
                    each.cancel()


class VisibleConsole(Console):
    """Escapes the control characters in everything that is printed; colours and cursor movements of rich's stay.

    Whoever counts the columns of a text escapes it before that: this is for what was forgotten.
    """

    def __init__(self, *, stderr: bool = True) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Return the parts that are written."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible(text), style, control)
