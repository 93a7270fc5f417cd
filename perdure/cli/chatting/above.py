"""A stream whose text appears above the line that a person types in."""

from __future__ import annotations

import asyncio
import io
from contextvars import copy_context
from threading import Lock

from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.output import Output


class Above(io.TextIOBase):
    """Takes the place of stdout and stderr while lines are typed; whole lines are shown, from any thread.

    It is made where the application that reads the lines is the current one.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._text = ""
        self._lock = Lock()
        self._showing: asyncio.Future[None] | None = None

    encoding = "utf-8"

    def isatty(self) -> bool:
        """It is shown on one."""
        return True

    def writable(self) -> bool:
        """It is."""
        return True

    def fileno(self) -> int:
        """That of the terminal."""
        return self._output.fileno()

    def write(self, text: str) -> int:
        """Show the text, with what was written before, when its line is whole."""
        with self._lock:
            self._text += text
        if "\n" in text:
            self._loop.call_soon_threadsafe(self._show, context=self._context)
        return len(text)

    async def all_shown(self) -> None:
        """Show the rest, and wait until everything is."""
        while self._showing and not self._showing.done():
            await self._showing
        self._write(self._take(whole=False))

    def _show(self) -> None:
        if self._showing is None or self._showing.done():
            self._showing = asyncio.ensure_future(self._show_until_empty())

    async def _show_until_empty(self) -> None:
        while text := self._take(whole=True):
            await run_in_terminal(lambda shown=text: self._write(shown))  # type: ignore[misc]

    def _take(self, *, whole: bool) -> str:
        with self._lock:
            end = self._text.rfind("\n") + 1 if whole else len(self._text)
            taken, self._text = self._text[:end], self._text[end:]
        return taken

    def _write(self, text: str) -> None:
        if text:
            self._output.write_raw(text)
            self._output.flush()
