"""A conversation on a terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

from ...excerpt import counted, one_line
from ...shell import command_line
from ..console import keep_stdout_for_answers, say
from ..problems import DONE
from ..waiting import waiting_shown
from .commands import Commands
from .following import Following, opening
from .said import last_part
from .screen import Screen, open_screen, write

if TYPE_CHECKING:
    from ...messages import Message
    from ...protocol.run import RunInput
    from .opening import Opened


_LEAVES = ("/quit",)


async def talk(opened: Opened, *, on_stdout: bool) -> int:
    """Send what is typed and show what comes back, until the person leaves; returns the exit code.

    With `on_stdout`, which is no terminal then, the answers are written there too.
    """
    keep_stdout_for_answers()
    following = Following(opened.server, opened.conversation, on_stdout=on_stdout)
    said: Sequence[Message] = []
    if opened.is_old:
        under_way = await following.skip_what_is_over()
        said = before(await opened.conversation.messages(), under_way)
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
    """What was said before the run that has begun with this, which shows the rest itself."""
    first = opening(under_way)[:1] if under_way else []
    for place in range(len(messages) - 1, -1, -1):
        if first and messages[place].role == "user" and messages[place].text == first[0].text:
            return messages[:place]
    return messages


async def _until_left(opened: Opened, following: Following, screen: Screen, unsent: list[str]) -> None:
    """Until the person leaves; `unsent` gets what nobody has confirmed by then.

    Raises what goes wrong with what is shown, or done, meanwhile.
    """
    commands = Commands(opened.server.client, opened.conversation, following, screen)
    waits = (following.follow(screen), _do_what_is_typed(commands, screen), *_leaving(following, screen))
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


def _leaving(following: Following, screen: Screen) -> tuple[Awaitable[object], ...]:
    return following.left.wait(), screen.ended.wait()


async def _do_what_is_typed(commands: Commands, screen: Screen) -> None:
    async for line in screen.lines():
        await commands.do(line)


def _announce(opened: Opened, said: Sequence[Message]) -> None:
    worker = "worker in this process" if opened.inside else "workers elsewhere"
    count = sum(message.role == "user" for message in said)
    so_far = f", {counted(count, 'message')} so far" if count else ""
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
        say(f"Session {opened.id} is closed. What was said: {command_line('messages', opened.id)}")
    else:
        say(f"Session {opened.id} stays. Go on with it: {opened.command}")
