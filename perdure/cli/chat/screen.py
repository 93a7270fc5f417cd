"""The terminal of a conversation: a line to type in, and above it what is under way and what is over."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, redirect_stderr, redirect_stdout
from contextvars import copy_context
from threading import Lock

from prompt_toolkit import PromptSession
from prompt_toolkit.application import create_app_session, run_in_terminal
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output, create_output
from rich.console import Console, Group
from rich.text import Text

from ...text import visible
from ..terminal import VisibleConsole


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


PROMPT = "> "


class Screen:
    """Gives the lines that are typed; takes the place of the keyboard where something is asked meanwhile.

    Args:
        said: What was said before, for the arrow keys.
        interrupt: What Ctrl-C does while nothing is typed.
    """

    def __init__(self, said: Iterable[str], interrupt: Callable[[], None]) -> None:
        self._lines: asyncio.Queue[str] = asyncio.Queue()
        self.ended = asyncio.Event()
        """Set when nothing more will be typed."""
        self._below: list[Text] = []
        self._asked: _Asked | None = None
        self._interrupt = interrupt
        self._hint = ""
        self._console = _console()
        self._session: PromptSession[str] = PromptSession(
            multiline=True,
            erase_when_done=True,
            history=InMemoryHistory(list(said)),
            key_bindings=self._keys(),
            prompt_continuation=lambda width, line, wrapped: " " * width,
            reserve_space_for_menu=0,
        )

    async def lines(self) -> AsyncIterator[str]:
        """Yield the lines typed, except answers to questions, until this is cancelled."""
        while True:
            yield await self._lines.get()

    def show_below(self, lines: list[Text], hint: str = "") -> None:
        """Keep these lines between what is over and the line to type in, and in that, while it is empty, the hint."""
        if lines != self._below or hint != self._hint:
            self._below, self._hint = lines, hint
            self._session.app.invalidate()

    def unread(self) -> list[str]:
        """Return what was typed and not read."""
        return [self._lines.get_nowait() for _ in range(self._lines.qsize())]

    def write(self, text: str, style: str = "") -> None:
        """Write above the line to type in."""
        write(text, style)

    def begin(self, prompt: str) -> None:
        """Take the next line as the answer to a question, and keep what is being typed for afterwards."""
        buffer = self._session.default_buffer
        self._asked = _Asked(prompt, asyncio.get_running_loop().create_future(), buffer.document)
        buffer.set_document(Document(), bypass_readonly=True)
        self._session.app.invalidate()

    async def line(self) -> str | None:
        """Return the answer to the question."""
        assert self._asked
        return await self._asked.answer

    def end(self, typed: str | None) -> None:
        """End the question."""
        asked, self._asked = self._asked, None
        if asked:
            self._session.default_buffer.set_document(asked.typed_before, bypass_readonly=True)
            self._session.app.invalidate()

    async def read(self) -> None:
        """Read what is typed until the end of input, or until this is cancelled."""
        try:
            while True:
                self._take(await self._session.prompt_async(self._message, placeholder=self._placeholder))
        except EOFError:
            self.ended.set()

    def _take(self, typed: str) -> None:
        asked = self._asked
        if asked and not asked.answer.done():
            self.write(asked.prompt + typed)
            asked.answer.set_result(typed)
        elif typed.strip():
            first, *others = typed.strip("\n").split("\n")
            self.write("\n".join([PROMPT + first, *(" " * len(PROMPT) + other for other in others)]), "bold")
            self._lines.put_nowait(typed.strip())

    def _message(self) -> ANSI:
        """Return the text before the cursor."""
        with self._console.capture() as captured:
            if self._below:
                self._console.print(Group(*self._below), no_wrap=True, overflow="ellipsis")
            self._console.print(Text(self._asked.prompt if self._asked else PROMPT, style="bold"), end="")
        return ANSI(captured.get())

    def _placeholder(self) -> ANSI:
        return ANSI(f"\x1b[2m{self._hint}\x1b[0m" if self._hint and not self._asked else "")

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
            if event.current_buffer.text and not self._asked:
                event.current_buffer.reset()
            else:
                self._interrupt()

        return keys


def write(text: str, style: str = "") -> None:
    """Write to the terminal; above the line to type in, if there is one."""
    _console().print(Text(visible(text), style=style))


def _console() -> Console:
    return VisibleConsole()


class _Asked:
    def __init__(self, prompt: str, answer: asyncio.Future[str | None], typed_before: Document) -> None:
        self.prompt = prompt
        self.answer = answer
        self.typed_before = typed_before


@asynccontextmanager
async def open_screen(said: Iterable[str], interrupt: Callable[[], None]) -> AsyncIterator[Screen]:
    """Within it, lines can be typed on the terminal, and what is written appears above them."""
    output = create_output(sys.stderr)
    with create_app_session(output=output):
        above = Above(output)
        with redirect_stdout(above), redirect_stderr(above):
            async with _reading(Screen(said, interrupt), above) as screen:
                yield screen


@asynccontextmanager
async def _reading(screen: Screen, above: Above) -> AsyncIterator[Screen]:
    reading = asyncio.create_task(screen.read(), name="what is typed")
    try:
        yield screen
    finally:
        await above.all_shown()
        screen.show_below([])
        reading.cancel()
        await asyncio.wait([reading])
