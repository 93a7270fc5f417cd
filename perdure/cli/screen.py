"""An input line at the bottom of the terminal, with the work in progress below it; all other output
is above.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager, redirect_stderr, redirect_stdout

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.patch_stdout import StdoutProxy
from prompt_toolkit.styles import Style

from .console import keep_stdout_for_answers, say, styled
from .lines import Line

PROMPT, QUESTION = "> ", "? "
REFRESH_SECONDS = 0.2
_KEPT_LINES = 8
"""Lines of the terminal that are left to what is over, and to what is being typed."""


class Screen:
    """Reads the lines that a person types, and asks questions.

    Args:
        said: Earlier messages, for the arrow keys.
    """

    def __init__(self, said: Iterable[str]) -> None:
        self.lines: asyncio.Queue[str] = asyncio.Queue()
        """The lines typed, except answers to questions."""
        self.left = asyncio.Event()
        """Set when the person wants to leave: by Ctrl-D, by Ctrl-C twice, or by a command."""
        self.below: Callable[[], Sequence[Line]] = list
        """Returns the lines of the current calls, shown below the prompt."""
        self.advice = ""
        """Printed at the first Ctrl-C."""
        self.commands: Collection[str] = ()
        """Lines that begin with one of these words answer no question."""
        self._asked: asyncio.Future[str] | None = None
        self._is_advised = False
        self._session: PromptSession[str] = PromptSession(
            multiline=True,
            erase_when_done=True,
            history=InMemoryHistory(list(said)),
            key_bindings=self._keys(),
            prompt_continuation=lambda width, line, wrapped: " " * width,
            reserve_space_for_menu=0,
            bottom_toolbar=self._toolbar,
            refresh_interval=REFRESH_SECONDS,
            style=Style.from_dict({"bottom-toolbar": "noreverse"}),
        )

    @property
    def columns(self) -> int:
        """Width of the terminal."""
        return self._session.app.output.get_size().columns

    def unread(self) -> list[str]:
        """Return the typed text that was not read."""
        return [self.lines.get_nowait() for _ in range(self.lines.qsize())]

    async def ask(self, *, withdrawn: asyncio.Event) -> str | None:
        """Return the next typed line as the answer; None if the question is withdrawn first.

        What is being typed is kept for afterwards.
        """
        buffer, typed_before = self._session.default_buffer, self._session.default_buffer.document
        answer = self._asked = asyncio.get_running_loop().create_future()
        buffer.set_document(Document(), bypass_readonly=True)
        gone = asyncio.ensure_future(withdrawn.wait())
        try:
            await asyncio.wait([answer, gone], return_when=asyncio.FIRST_COMPLETED)
            return answer.result() if answer.done() else None
        finally:
            gone.cancel()
            self._asked = None
            buffer.set_document(typed_before, bypass_readonly=True)

    async def read(self) -> None:
        """Read typed lines until the end of input, or until it is cancelled."""
        try:
            while True:
                self._handle_line(await self._session.prompt_async(self._message))
        except EOFError:
            self.left.set()

    def _handle_line(self, typed: str) -> None:
        self._is_advised = False
        is_command = typed.strip().partition(" ")[0] in self.commands
        if self._asked and not self._asked.done() and not is_command:
            say(QUESTION + typed)
            self._asked.set_result(typed)
        elif typed.strip():
            say(PROMPT + typed.strip("\n").replace("\n", "\n  "), "strong")
            self.lines.put_nowait(typed.strip())

    def _message(self) -> ANSI:
        return ANSI(styled(QUESTION if self._asked else PROMPT, "strong"))

    def _toolbar(self) -> ANSI:
        room = max(self._session.app.output.get_size().rows - _KEPT_LINES, 1)
        return ANSI("\n".join(styled(*line) for line in self.below()[-room:]))

    def _interrupt(self) -> None:
        if self._is_advised:
            self.left.set()
        self._is_advised = True
        say(f"    {self.advice}", "faint")

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.validate_and_handle()

        @keys.add("escape", "enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c")
        @keys.add("<sigint>")
        def _(event: KeyPressEvent) -> None:
            if event.current_buffer.text:
                event.current_buffer.reset()
            else:
                self._interrupt()

        return keys


def has_person() -> bool:
    """Return whether the command is in the foreground of a person's terminal."""
    is_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    return is_terminal and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()


@asynccontextmanager
async def open_screen(said: Iterable[str] = ()) -> AsyncIterator[Screen]:
    """Let a person type lines while the block runs; all output appears above them."""
    keep_stdout_for_answers()  # prompt_toolkit takes `sys.stdout`, which is stderr from here on.
    screen = Screen(said)
    reading = asyncio.create_task(screen.read(), name="what is typed")
    above = StdoutProxy(raw=True)
    try:
        with redirect_stdout(above), redirect_stderr(above):
            yield screen
    finally:
        await asyncio.to_thread(above.close)
        await run_in_terminal(lambda: None)  # After what was written.
        reading.cancel()
        await asyncio.wait([reading])
