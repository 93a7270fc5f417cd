"""The keyboard: one line after another, as answers to what is asked."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Protocol

from .console import say

_BACKGROUND_SECONDS = 0.5


class Keyboard(Protocol):
    """Where lines are typed."""

    def begin(self, prompt: str) -> None:
        """A line is asked for: what was typed before can't be meant for it."""

    async def line(self) -> str | None:
        """The next line; None at the end of input."""

    def end(self, typed: str | None) -> None:
        """The line is asked for no longer; it was this one, None when there was none."""


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
        """The next line; None at the end of input."""
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
