"""Shows the turns of a session as they come: what the agent writes, what it does, and what was said before."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from typing import NamedTuple

from temporalio.service import RPCError

from ...client import RunHandle, Session
from ...client.reading.watch import RETRY_SECONDS, is_away
from ...client.sessions.reading import SessionRun, turns
from ...commands import command_line
from ...errors import RunError
from ...history.link import read_input
from ...messages import Message
from ...protocol.outcome import RunResult
from ...protocol.run import RunInput
from ...text import count_of, one_line
from ..ask_person import Detached, Menu
from ..console import answer, describe_spending, say, short_call
from ..follow import alongside, shown_to_the_end
from ..problems import explain
from ..server_connection import ServerConnection, run_under_way
from ..terminal import Terminal
from ..view import Style, View, typed_text
from ..worker_inside import mention_missing_worker
from .screen import Screen

_EXCHANGES = 2
"""How many of what a person has said are shown, with what followed."""
_LINES = 12
"""Of one message."""


class Paragraph(NamedTuple):
    """Text of one paragraph, and how it is shown."""

    text: str
    style: str = ""


def last_part(messages: Sequence[Message]) -> Iterator[Paragraph]:
    """Yield the end of the conversation, and a line about what is before it."""
    shown = [message for message in messages if message.role != "system"]
    asked = [place for place, message in enumerate(shown) if message.role == "user"]
    start = asked[-_EXCHANGES] if len(asked) > _EXCHANGES else 0
    if start:
        yield Paragraph(f"    … {count_of(start, 'earlier message')}: /messages shows them", "dim")
    yield from whole(shown[start:], _LINES)


def whole(messages: Sequence[Message], lines: int | None = None) -> Iterator[Paragraph]:
    """All of it, instructions aside; of each message so many lines, None for all."""
    for message in messages:
        if message.role != "system":
            yield from _paragraphs(message, lines)


def _paragraphs(message: Message, lines: int | None) -> Iterator[Paragraph]:
    if message.role == "user":
        yield Paragraph(_first_lines(typed_text(message), lines), "bold")
    elif message.role == "tool":
        yield Paragraph(f"      → {one_line(message.text, 300)}", "dim")
    elif message.text.strip():
        yield Paragraph(_first_lines(message.text, lines))
    for call in message.tool_calls:
        yield Paragraph(f"    ✓ {short_call(call.name, call.arguments)}", "dim")
    for part in message.parts:
        if part.kind != "text":
            yield Paragraph(f"    [{part.kind}]", "dim")


def _first_lines(text: str, lines: int | None) -> str:
    all_lines = text.strip("\n").split("\n")
    if lines is None or len(all_lines) <= lines:
        return "\n".join(all_lines)
    return "\n".join([*all_lines[: lines - 1], f"    … {count_of(len(all_lines) - lines + 1, 'more line')}"])


_KEPT_LINES = 8
"""Lines of the terminal that are left to what is over, and to what is being typed."""


_HINT = "what you type now, the agent reads meanwhile; /queue TEXT waits for the next turn"


class Following:
    """Follows one session for one terminal."""

    def __init__(self, server: ServerConnection, session: Session, *, on_stdout: bool = False) -> None:
        self._on_stdout = on_stdout
        self._server = server
        self._session = session
        self._screen: Screen | None = None
        self._menu: Menu | None = None
        self._begun = asyncio.Event()
        self._over: set[str] = set()
        """Temporal's ids of the runs that need not be shown."""
        self.current: RunHandle | None = None
        """The run that is shown."""
        self.unfinished: str | None = None
        """The id of a run that was shown, and whose end was not."""
        self.shown: Counter[str] = Counter()
        """What was typed here, and is shown already where a run reads it."""
        self.is_closing = False
        """Whether the session was closed here."""
        self.left = asyncio.Event()
        """Set when the person has decided to leave."""

    def expect_run(self) -> None:
        """Note that the session has a run or will have one: it was sent a message."""
        self._begun.set()

    async def skip_what_is_over(self) -> RunInput | None:
        """Show no run that has ended; returns what the one under way has begun with, if there is one."""
        self.expect_run()
        described = await self._server.client.get_workflow_handle(self._session.id).describe()
        under_way = run_under_way(described)
        async for turn in self._turns(wait=False):
            if turn.run_id == under_way:
                return await self._input(turn)
            self._over.add(turn.first_run_id)
        return None

    def interrupt(self) -> None:
        """Handle Ctrl-C while nothing is typed: ask what to do with the run under way, if there is one."""
        if self._menu:
            self._menu.interrupt()
        elif self._screen:
            self._screen.write("    Ctrl-D leaves, and the session stays; /help lists what can be typed", "dim")

    async def follow(self, screen: Screen) -> None:
        """Show one turn after the other until the person leaves, whether or not the server answers all the while."""
        self._screen = screen
        while not self.left.is_set():
            await self._begun.wait()
            self._begun.clear()
            try:
                await self._follow_to_its_end(screen)
            except RPCError as error:
                if not is_away(error):
                    raise
                self._begun.set()
                await asyncio.sleep(RETRY_SECONDS)

    async def _follow_to_its_end(self, screen: Screen) -> None:
        async for turn in self._turns(wait=True):
            if turn.first_run_id not in self._over:
                await self._show(turn, screen)
                self._over.add(turn.first_run_id)
        if not await self._server.has_ended(self._session.id):
            self._begun.set()  # a new session of that id has begun meanwhile
        elif self.is_closing:
            self.left.set()
        elif not self._begun.is_set():
            screen.write(f"    Session {self._session.id} is closed. The next message begins a new one.", "dim")

    async def _turns(self, *, wait: bool) -> AsyncIterator[SessionRun]:
        client, id = self._server.client, self._session.id
        link = (await client.get_workflow_handle(id).describe()).run_id
        async for turn in turns(client, id, link, wait=wait):
            yield turn

    async def _input(self, turn: SessionRun) -> RunInput:
        return await read_input(self._server.client, turn.run_id, turn.first_run_id)

    async def _show(self, turn: SessionRun, screen: Screen) -> None:
        handle = RunHandle(self._server.client, turn.run_id, origin=turn.first_run_id)
        input = await self._input(turn)
        for message in first_messages(input):
            if not self._is_shown(message.text):
                screen.write(typed_text(message), "bold")
        model = input.agent.model.id if input.agent.model else ""
        style = Style(
            has_heads=False,
            kept_lines=_KEPT_LINES,
            show_below=lambda lines: screen.show_below(lines, _HINT),
            is_shown=self._is_shown,
        )
        view = View(handle.id, model, style)
        terminal = Terminal(view, screen)
        self.current, self.unfinished, self._menu = handle, handle.id, Menu(handle, terminal)
        try:
            await self._until_end(handle, view, terminal, self._menu)
            self.unfinished = self.unfinished if self.left.is_set() else None
        finally:
            self.current = None
            view.end_line()
            menu, self._menu = self._menu, None
            await menu.close()
            screen.show_below([])

    def _is_shown(self, text: str) -> bool:
        """Return whether it is, the first time this is called for it."""
        if not self.shown[text]:
            return False
        self.shown[text] -= 1
        return True

    async def _until_end(self, handle: RunHandle, view: View, terminal: Terminal, menu: Menu) -> None:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(alongside(view.animate()))
            await stack.enter_async_context(alongside(mention_missing_worker(self._server, handle.id)))
            try:
                result = await _show_to_the_end(handle, view, terminal, menu)
            except Detached:
                self.left.set()
                return
            except RunError as error:
                view.end_line()
                _say_failure(handle, error)
                return
            except Exception as error:
                if (explained := explain(error)) is None:
                    raise
                view.end_line()
                say(f"    {explained.text}", "bad")
                return
        _show_result(handle, result, view)
        if self._on_stdout:
            answer(result.output, exact=True)


async def _show_to_the_end(handle: RunHandle, view: View, terminal: Terminal, menu: Menu) -> RunResult:
    """Return the result, after all that the turn has done: nothing is held back for a menu any more."""
    try:
        return await shown_to_the_end(handle, view, terminal, menu)
    finally:
        await menu.close()


def _say_failure(handle: RunHandle, error: RunError) -> None:
    if error.kind == "cancelled":
        say(f"    {handle.id} was cancelled", "bad")
        return
    say(f"    {handle.id} ended without an answer ({error.kind}): {error}", "bad")
    say(f"    what it did: {command_line('show', handle.id)}", "faint")


def first_messages(input: RunInput) -> list[Message]:
    """Return the messages that the turn starts with: those since the turn before."""
    said = [message for message in input.messages if message.role == "user"]
    return said if input.beginning else said[-1:]


def _show_result(handle: RunHandle, result: RunResult, view: View) -> None:
    view.show_output(result.output)
    view.end_line()
    say(f"    {handle.id}: {describe_spending(result)}", "faint")
    if result.is_incomplete:
        say("    reached a limit: this answer is incomplete", "bad")
