"""What can be typed in a conversation beside messages: `/help` lists it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from ...client.sessions.error import SessionError
from ...spelling import did_you_mean
from ..approvals import this_user
from ..console import say
from ..problems import explain
from .runs_table import runs_table
from .said import whole

if TYPE_CHECKING:
    from temporalio.client import Client

    from ...client import Session as Conversation
    from ...protocol.session import WhileBusy
    from .following import Following
    from .screen import Screen

_COMMAND = re.compile(r"/([a-z]+)(?:\s+(.*))?", re.DOTALL)


class Commands:
    """Does what is typed: sends messages, and carries out commands."""

    def __init__(self, client: Client, conversation: Conversation, following: Following, screen: Screen) -> None:
        self._client = client
        self._conversation = conversation
        self._following = following
        self._screen = screen
        self.unconfirmed: dict[str, str] = {}
        """Text → id of a message that nothing has confirmed: typed again, it counts once."""

    async def do(self, line: str) -> None:
        """Do what the line says; what goes wrong is said, and the conversation goes on."""
        try:
            await self._do(line)
        except Exception as error:
            if (explained := explain(error)) is None:
                raise
            self._screen.show_below([])
            say(f"    {explained.text}", "bad")
            if isinstance(error, SessionError) and error.kind == "unconfirmed":
                say("    the arrow keys bring it back; sent again, it counts once", "faint")

    async def _do(self, line: str) -> None:
        found = _COMMAND.fullmatch(line)
        if not found:
            await self._send(line, "steer")
        elif command := COMMANDS.get(found[1]):
            await command.do(self, (found[2] or "").strip())
        else:
            hint = did_you_mean(found[1], COMMANDS)
            say(f"    there is no command /{found[1]}{hint}; /help lists them", "bad")

    async def _send(self, text: str, while_busy: WhileBusy) -> None:
        busy = self._following.current
        if while_busy != "queue":
            self._following.shown[text] += 1
        if busy is None:
            self._screen.show_below([Text("    sending …", style="dim")])
        id = self.unconfirmed.setdefault(text, uuid.uuid4().hex)
        try:
            handle = await self._conversation.send(text, while_busy=while_busy, message_id=id, by=this_user())
        except SessionError as error:
            if error.kind != "unconfirmed":
                self.unconfirmed.pop(text)
            raise
        self.unconfirmed.pop(text)
        if busy and handle.id == busy.id:
            say("    sent; the agent reads it before its next model call", "faint")
        elif busy and while_busy == "queue":
            say(f"    waits; it opens {handle.id}", "faint")
        self._following.begun()

    async def queue(self, text: str) -> None:
        """Send what waits for a turn of its own."""
        if text:
            await self._send(text, "queue")
        else:
            say("    /queue TEXT: expected what the next turn is to begin with", "bad")

    async def messages(self, _: str) -> None:
        """Show the whole conversation."""
        for each in whole(await self._conversation.messages()):
            self._screen.write(each.text, each.style)

    async def runs(self, _: str) -> None:
        """Show the turns."""
        for line in await runs_table(self._client, self._conversation):
            self._screen.write(f"    {line}")

    async def close(self, _: str) -> None:
        """Close the session."""
        self._following.is_closing = True
        await self._conversation.close()
        say(f"    Session {self._conversation.id} takes no more messages, and ends after what it has to do.", "faint")

    async def quit(self, _: str) -> None:
        """Leave."""
        self._following.left.set()

    async def help(self, _: str) -> None:
        """Show what can be typed."""
        width = max(len(f"/{name} {command.takes}") for name, command in COMMANDS.items())
        for name, command in COMMANDS.items():
            self._screen.write(f"    {f'/{name} {command.takes}'.ljust(width)}  {command.text}")
        for line in _KEYS:
            self._screen.write(f"    {line}")


class _Command(NamedTuple):
    do: Callable[[Commands, str], Awaitable[None]]
    text: str
    takes: str = ""


COMMANDS = {
    "queue": _Command(Commands.queue, "waits for a turn of its own, while a run is under way", "TEXT"),
    "messages": _Command(Commands.messages, "the whole conversation"),
    "runs": _Command(Commands.runs, "the turns: each is a run"),
    "close": _Command(Commands.close, "ends the session, after the run under way, and leaves"),
    "quit": _Command(Commands.quit, "leaves; the session stays (Ctrl-D too)"),
    "help": _Command(Commands.help, "this list"),
}
_KEYS = (
    "Everything else is said to the agent; while it works, it reads that before its next model call.",
    "Alt-Enter begins a new line. Ctrl-C asks whether to leave, cancel the turn or go on.",
)
