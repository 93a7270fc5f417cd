"""Ctrl-C while a run is being watched on a terminal: what now? The run itself goes on meanwhile."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from ..excerpt import one_line
from .approvals import this_user
from .console import say
from .terminal import Ask, Terminal

if TYPE_CHECKING:
    from ..client import RunHandle

_PROMPT = "    d = detach, c = cancel the run, s TEXT = steer it, Enter = go on watching: "
_STEERING = "    what the agent is to read: "


class Detached(Exception):
    """The person watches the run no longer; it goes on, if it has a worker."""


@asynccontextmanager
async def menu_on_interrupt(handle: RunHandle, terminal: Terminal | None) -> AsyncIterator[Menu | None]:
    """Within it, Ctrl-C asks what to do; where there is no terminal, it does what it did before."""
    if terminal is None:
        yield None
        return
    menu, loop = Menu(handle, terminal), asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGINT)
    loop.add_signal_handler(signal.SIGINT, menu.interrupt)
    try:
        yield menu
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)
        await menu.close()


class Menu:
    """Asks, one time for each Ctrl-C; another one while it asks detaches."""

    def __init__(self, handle: RunHandle, terminal: Terminal) -> None:
        self._handle = handle
        self._terminal = terminal
        self._asking: asyncio.Task[None] | None = None
        self.detached = asyncio.Event()
        """Set when the person has decided to watch no longer."""

    def interrupt(self) -> None:
        """Ask, or detach if this asks already."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask_until_done(), name="ctrl-c")
        else:
            self.detached.set()

    async def close(self) -> None:
        """Ask no longer."""
        if self._asking:
            self._asking.cancel()
            with suppress(asyncio.CancelledError):
                await self._asking

    async def _ask_until_done(self) -> None:
        async with self._terminal.interrupted() as ask:
            say("")
            while not await self._answered(await ask(self._show), ask):
                pass
            if self.detached.is_set():
                await asyncio.Event().wait()  # nothing is asked or shown any more

    async def _answered(self, line: str | None, ask: Ask) -> bool:
        """Do what the line says; False when the question must be put again."""
        from temporalio.service import RPCError

        try:
            return await self._done(line, ask)
        except RPCError as error:
            say(f"    {error.message}", "bad")
            return False

    def _show(self) -> str:
        say(f"  Run {self._handle.id} is under way. What now? (Ctrl-C again detaches.)", "strong")
        return _PROMPT

    async def _done(self, line: str | None, ask: Ask) -> bool:
        """Do what the line says; False when it says nothing that can be done."""
        word, _, text = (line or "").strip().partition(" ")
        match word.lower() if line is not None else "d":
            case "d" | "detach":
                self.detached.set()
            case "c" | "cancel":
                await self._handle.cancel(f"cancelled on the terminal by {this_user() or 'its user'}")
                say("    asked the run to end; a running tool gets time to finish")
            case "s" | "steer":
                return await self._steered(text.strip() or (await ask(lambda: _STEERING) or "").strip())
            case "" | "g" | "go":
                pass
            case _:
                say(f"    {one_line(word, 40)!r} is none of these")
                return False
        return True

    async def _steered(self, text: str) -> bool:
        if text:
            await self._handle.steer(text, by=this_user())
            say("    sent; the agent reads it before its next model call")
        return bool(text)
