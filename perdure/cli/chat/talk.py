"""A conversation on a terminal: messages, what else can be typed (`/help`), and the turns in a table."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from rich.text import Text
from temporalio.client import Client, WorkflowExecutionDescription

from ...client import Session
from ...client.connection import server_time
from ...commands import command_line
from ...errors import SessionError
from ...messages import Message
from ...protocol.run import RunInput
from ...protocol.search_attributes import COST, ShownRun, shown_of
from ...protocol.session import WhileBusy
from ...text import count_of, did_you_mean, format_usd, one_line
from ..ask_person import local_time, this_user
from ..completion import word_of
from ..console import describe_seconds, in_columns, keep_stdout_for_answers, say
from ..problems import DONE, explain
from ..recorded_run import waiting_shown
from .open import Opened
from .screen import Screen, open_screen, write
from .turns import Following, first_messages, last_part, whole


async def runs_table(client: Client, session: Session) -> list[str]:
    """Runs as aligned lines, oldest first. Raises `RPCError`, and `RunNotFound` when there is no such session."""
    ids = [run.id for run in await session.runs()]
    now = await server_time(client)
    found = [await client.get_workflow_handle(id).describe() for id in ids]
    return in_columns([_cells(run, await shown_of(run), now) for run in found])


def _cells(run: WorkflowExecutionDescription, shown: ShownRun, now: float) -> list[str]:
    seconds = (run.close_time.timestamp() if run.close_time else now) - shown.started.timestamp()
    cost = format_usd(run.typed_search_attributes.get(COST)) if run.close_time else ""
    return [run.id, word_of(run.status), local_time(shown.started.timestamp()), describe_seconds(seconds), cost]


_COMMAND = re.compile(r"/([a-z]+)(?:\s+(.*))?", re.DOTALL)


class Commands:
    """Does what is typed: sends messages, and carries out commands."""

    def __init__(self, client: Client, session: Session, following: Following, screen: Screen) -> None:
        self._client = client
        self._session = session
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
            handle = await self._session.send(text, while_busy=while_busy, message_id=id, by=this_user())
        except SessionError as error:
            if error.kind != "unconfirmed":
                self.unconfirmed.pop(text)
            raise
        self.unconfirmed.pop(text)
        if busy and handle.id == busy.id:
            say("    sent; the agent reads it before its next model call", "faint")
        elif busy and while_busy == "queue":
            say(f"    waits; it opens {handle.id}", "faint")
        self._following.expect_run()

    async def queue(self, text: str) -> None:
        """Send what waits for a turn of its own."""
        if text:
            await self._send(text, "queue")
        else:
            say("    /queue TEXT: expected what the next turn is to begin with", "bad")

    async def messages(self, _: str) -> None:
        """Show the whole conversation."""
        for each in whole(await self._session.messages()):
            self._screen.write(each.text, each.style)

    async def runs(self, _: str) -> None:
        """Show the turns."""
        for line in await runs_table(self._client, self._session):
            self._screen.write(f"    {line}")

    async def close(self, _: str) -> None:
        """Close the session."""
        self._following.is_closing = True
        await self._session.close()
        say(f"    Session {self._session.id} takes no more messages, and ends after what it has to do.", "faint")

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

_LEAVES = ("/quit",)


async def talk(opened: Opened, *, on_stdout: bool) -> int:
    """Send what is typed and show what comes back, until the person leaves; returns the exit code.

    With `on_stdout`, which is no terminal then, the answers are written there too.
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
        write(each.text, each.style)
    unsent: list[str] = []
    try:
        async with open_screen(typed, following.interrupt) as screen:
            with waiting_shown():
                await _until_left(opened, following, screen, unsent)
    finally:
        _say_how_to_go_on(opened, following, unsent)
    return DONE


def before(messages: Sequence[Message], under_way: RunInput | None) -> Sequence[Message]:
    """Return what was said before the run that starts with this, which shows the rest itself."""
    first = first_messages(under_way)[:1] if under_way else []
    for place in range(len(messages) - 1, -1, -1):
        if first and messages[place].role == "user" and messages[place].text == first[0].text:
            return messages[:place]
    return messages


async def _until_left(opened: Opened, following: Following, screen: Screen, unsent: list[str]) -> None:
    """Until the person leaves; `unsent` gets what nobody has confirmed by then.

    Raises what goes wrong with what is shown, or done, meanwhile.
    """
    commands = Commands(opened.server.client, opened.session, following, screen)
    waits = (following.follow(screen), _do_what_is_typed(commands, screen), *_ends(following, screen))
    tasks = [asyncio.ensure_future(each) for each in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        unsent += [*commands.unconfirmed, *(line for line in screen.unread() if line not in _LEAVES)]
        await asyncio.wait(tasks)


def _ends(following: Following, screen: Screen) -> tuple[Awaitable[object], ...]:
    return following.left.wait(), screen.ended.wait()


async def _do_what_is_typed(commands: Commands, screen: Screen) -> None:
    async for line in screen.lines():
        await commands.do(line)


def _announce(opened: Opened, said: Sequence[Message]) -> None:
    worker = "worker in this process" if opened.inside else "workers elsewhere"
    count = sum(message.role == "user" for message in said)
    so_far = f", {count_of(count, 'message')} so far" if count else ""
    say(f"Session {opened.id}: {opened.server.place}, {worker}{so_far}", "strong")
    if not opened.is_old:
        say(f"  go on with it at any time: {opened.command}    /help lists what can be typed", "faint")


def _say_how_to_go_on(opened: Opened, following: Following, unsent: Sequence[str]) -> None:
    for text in unsent:
        say(f"This may not have arrived: {one_line(text)}", "bad")
    if following.unfinished:
        goes_on = (
            "waits for a worker: it goes on when you come back" if opened.inside else "goes on without this command"
        )
        say(f"Run {following.unfinished} {goes_on}.")
    if following.is_closing:
        say(f"Session {opened.id} is closed. Read the conversation: {command_line('messages', opened.id)}")
    else:
        say(f"Session {opened.id} stays. Go on with it: {opened.command}")
