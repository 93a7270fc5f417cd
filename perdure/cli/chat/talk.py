"""A conversation on a terminal: messages, commands (`/help`), and the way to continue later."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Coroutine, Sequence
from typing import Any

from ...client import Session
from ...commands import command_line
from ...errors import SessionError
from ...messages import Message
from ...protocol.run import RunInput
from ...text import count_of, one_line
from ..ask_person import this_user
from ..console import keep_stdout_for_answers, say
from ..follow import SENT, cancel_from_terminal
from ..lines import Line
from ..problems import DONE, explained
from ..recorded_run import waiting_shown
from ..screen import Screen, open_screen
from .open import Opened
from .turns import Following, first_messages, last_part

COMMANDS = {
    "/cancel": "ends the open run; the session goes on",
    "/close": "ends the session after its open run, and leaves",
    "/quit": "leaves; the session stays (Ctrl-D too)",
    "/help": "this list",
}
_KEYS = (
    "Any other line is a message to the agent; a working agent reads it before its next model "
    "call.",
    "Alt-Enter begins a new line. Ctrl-C discards the typed text; twice, it leaves.",
)


class Commands:
    """Sends the typed messages, and carries out the typed commands."""

    def __init__(self, session: Session, following: Following, screen: Screen) -> None:
        self._session = session
        self._following = following
        self._screen = screen
        self.unconfirmed: dict[str, str] = {}
        """Text → id of a message that nothing has confirmed: typed again, it counts once."""

    async def do(self, line: str) -> None:
        """Carry out the line; print an error, and let the conversation continue."""
        try:
            await self._carry_out(line)
        except Exception as error:
            say(f"    {explained(error)}", "bad")
            if isinstance(error, SessionError) and error.kind == "unconfirmed":
                say("    the arrow keys bring it back; sent again, it counts once", "faint")

    async def _carry_out(self, line: str) -> None:
        match line:
            case "/cancel" if self._following.current:
                await cancel_from_terminal(self._following.current)
            case "/cancel":
                say("    no run is open; /quit leaves", "faint")
            case "/close":
                await self._close()
            case "/quit":
                self._screen.left.set()
            case "/help":
                for name, text in COMMANDS.items():
                    say(f"    {name:<8} {text}")
                whole = command_line("messages", self._session.id)
                for each in (*_KEYS, f"The whole conversation: {whole}"):
                    say(f"    {each}")
            case _ if re.fullmatch("/[a-z]+", line):
                say(f"    there is no command {line}; /help lists them", "bad")
            case _:
                await self._send(line)

    async def _send(self, text: str) -> None:
        busy = self._following.current
        self._following.shown[text] += 1
        if busy is None:
            self._screen.below = lambda: [Line("    sending …")]
        id = self.unconfirmed.setdefault(text, uuid.uuid4().hex)
        try:
            handle = await self._session.send(text, message_id=id, by=this_user())
        except SessionError as error:
            self._screen.below = list
            if error.kind != "unconfirmed":
                self.unconfirmed.pop(text)
            raise
        self.unconfirmed.pop(text)
        if busy and handle.id == busy.id:
            say(f"    {SENT}", "faint")
        self._following.expect_run()

    async def _close(self) -> None:
        self._following.is_closing = True
        await self._session.close()
        say(
            f"    Session {self._session.id} takes no more messages, and ends when its work is "
            "done.",
            "faint",
        )


_LEAVES = ("/quit",)
_ADVICE = (
    "Ctrl-C again, or Ctrl-D, leaves, and the session stays; /cancel ends the turn; /help lists "
    "the commands"
)


async def talk(opened: Opened, *, on_stdout: bool) -> int:
    """Send each typed line and show the events, until the person leaves; return the exit code.

    With `on_stdout`, which is not a terminal then, the answers are written there too.
    """
    keep_stdout_for_answers()
    following = Following(opened.server, opened.session, on_stdout=on_stdout)
    said: Sequence[Message] = []
    if opened.is_old:
        under_way = await following.skip_what_is_over()
        said = before(await opened.session.messages(), under_way)
    typed = [message.text for message in said if message.role == "user"]
    _announce(opened, said)
    for each in last_part(said):
        say(*each)
    unsent: list[str] = []
    try:
        async with open_screen(typed) as screen:
            screen.advice, screen.commands = _ADVICE, [*COMMANDS]
            with waiting_shown():
                await _until_left(opened, following, screen, unsent)
    finally:
        _say_how_to_go_on(opened, following, unsent)
    return DONE


def before(messages: Sequence[Message], under_way: RunInput | None) -> Sequence[Message]:
    """Return the messages before the run that starts with these; the run shows the rest itself."""
    first = first_messages(under_way)[:1] if under_way else []
    for place in range(len(messages) - 1, -1, -1):
        if first and messages[place].role == "user" and messages[place].text == first[0].text:
            return messages[:place]
    return messages


async def _until_left(
    opened: Opened, following: Following, screen: Screen, unsent: list[str]
) -> None:
    """Until the person leaves; `unsent` gets what nobody has confirmed by then.

    Raises what goes wrong with what is shown, or done, meanwhile.
    """
    commands = Commands(opened.session, following, screen)
    waits: tuple[Coroutine[Any, Any, object], ...]
    waits = (following.follow(screen), _do_what_is_typed(commands, screen), screen.left.wait())
    tasks = [asyncio.ensure_future(each) for each in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        unsent += [
            *commands.unconfirmed,
            *(line for line in screen.unread() if line not in _LEAVES),
        ]
        await asyncio.wait(tasks)


async def _do_what_is_typed(commands: Commands, screen: Screen) -> None:
    while True:
        await commands.do(await screen.lines.get())


def _announce(opened: Opened, said: Sequence[Message]) -> None:
    worker = "worker in this process" if opened.inside else "workers elsewhere"
    count = sum(message.role == "user" for message in said)
    so_far = f", {count_of(count, 'message')} so far" if count else ""
    say(f"Session {opened.id}: {opened.server.place}, {worker}{so_far}", "strong")
    if not opened.is_old:
        say(f"  continue it at any time: {opened.command}    /help lists the commands", "faint")


def _say_how_to_go_on(opened: Opened, following: Following, unsent: Sequence[str]) -> None:
    for text in unsent:
        say(f"This may not have arrived: {one_line(text)}", "bad")
    if following.unfinished:
        goes_on = (
            "waits for a worker: it continues when you come back"
            if opened.inside
            else "continues without this command"
        )
        say(f"Run {following.unfinished} {goes_on}.")
    if following.is_closing:
        say(
            f"Session {opened.id} is closed. Read the conversation: "
            f"{command_line('messages', opened.id)}"
        )
    else:
        say(f"Session {opened.id} stays. Continue it: {opened.command}")
