"""The person at the terminal: is asked one thing at a time, while nothing else is written there."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Protocol, TypeAlias

from .keyboard import Keyboard, Lines

Ask: TypeAlias = Callable[[Callable[[], str]], Awaitable[str | None]]
"""Asks what a function shows, which returns the prompt; gives the line, None at the end of input."""


class Pausable(Protocol):
    """What is written to the terminal as it happens."""

    def paused(self) -> AbstractContextManager[None]:
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
        """The next line that is typed; None when the question is withdrawn before that, or the input has ended.

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
    async def interrupted(self) -> AsyncIterator[Ask]:
        """Within it nothing else is asked or shown; what it yields asks as `ask` does."""
        self._calm.clear()
        self._disturbed.set()
        try:
            async with self._turn:
                with self._view.paused():
                    yield self._ask_now
        finally:
            self._disturbed.clear()
            self._calm.set()

    async def _ask_now(self, show: Callable[[], str]) -> str | None:
        return (await self._ask(show, asyncio.Event(), asyncio.Event()))[0]

    async def _ask(
        self, show: Callable[[], str], withdrawn: asyncio.Event, disturbed: asyncio.Event
    ) -> tuple[str | None, bool]:
        """The line, and whether the question was disturbed before there was one."""
        with self._view.paused():
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
