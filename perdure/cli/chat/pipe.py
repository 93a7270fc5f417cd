"""A conversation without a terminal: it sends each message after the answer to the one before."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import uuid
from collections.abc import AsyncIterator, Sequence

from ...client import RunHandle, SessionError
from ..ask_person import this_user
from ..console import say
from ..follow import Detached, follow
from ..problems import DONE, INTERRUPTED, UsageProblem
from .open import Opened

_ALL_OF_STDIN = "-"


async def say_all(
    opened: Opened, messages: AsyncIterator[str], *, quiet: bool, as_json: bool
) -> int:
    """Send one message after the other and print each answer; return the exit code, 1 if any turn
    failed.
    """
    code = DONE
    async for text in messages:
        handle = await _send(opened, text)
        if not quiet:
            say(f"Run {handle.id}: {opened.server.place}", "strong")
        try:
            await (
                handle.fork_of()
            )  # Whatever it is asked, the handle of a message that is queued waits for its run.
            code = max(code, await follow(opened.server, handle, quiet=quiet, as_json=as_json))
        except (asyncio.CancelledError, Detached) as left:
            say(f"Run {handle.id} is open. Continue the session: {opened.command}")
            if isinstance(left, Detached):
                return INTERRUPTED
            raise
    return code


async def _send(opened: Opened, text: str) -> RunHandle:
    """Send it, again and again while no worker takes it: it counts once."""
    id = uuid.uuid4().hex
    while True:
        try:
            return await opened.session.send(
                text, while_busy="queue", message_id=id, by=this_user()
            )
        except SessionError as error:
            if error.kind != "unconfirmed":
                raise
            say(
                f"session {opened.session.id!r}: a message is unconfirmed: {error.reason}. "
                "It is sent again and counts once; Ctrl-C stops",
                "bad",
            )


async def messages_of(messages: Sequence[str]) -> AsyncIterator[str]:
    """Return the messages of the command line; `-` is all of stdin. Raises `UsageProblem` for one
    without text.
    """
    for each in messages:
        text = sys.stdin.read() if each == _ALL_OF_STDIN else each
        if not text.strip():
            raise UsageProblem(f"--message {each!r}: expected a message, got nothing")
        yield text.strip()


async def lines_of_stdin() -> AsyncIterator[str]:
    """Yield the lines as they come, without empty ones."""
    lines: asyncio.Queue[str | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    # A thread that ends with the process: nothing wakes one that waits for input.
    threading.Thread(target=_read, args=(lines, loop), daemon=True, name="stdin").start()
    while (line := await lines.get()) is not None:
        if line.strip():
            yield line.strip()


def _read(lines: asyncio.Queue[str | None], loop: asyncio.AbstractEventLoop) -> None:
    """Put each line into the queue; without Python's buffer, which can't be left while a thread
    waits for it.
    """
    text = b""
    while more := os.read(sys.stdin.fileno(), 65536):
        *whole, text = (text + more).split(b"\n")
        for line in whole:
            loop.call_soon_threadsafe(lines.put_nowait, line.decode(errors="replace"))
    for last in (text.decode(errors="replace"), None):
        loop.call_soon_threadsafe(lines.put_nowait, last)
