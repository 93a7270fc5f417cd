"""Stays with a run until it ends or the person leaves; either way, says where to look next."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..shell import command_line
from .console import say
from .follow import follow
from .menu import Detached
from .problems import DONE, INTERRUPTED
from .session import Session
from .task_queue import resume_command

if TYPE_CHECKING:
    from ..client import RunHandle


async def follow_to_the_end(
    session: Session, handle: RunHandle, *, quiet: bool, as_json: bool, helps: bool = False
) -> int:
    """Show what the run does until it ends; interrupted, say how to go on. `follow` explains the arguments.

    Returns the exit code; whoever detaches is told the same as who interrupts.
    """
    try:
        code = await follow(session, handle, quiet=quiet, as_json=as_json, helps=helps)
    except asyncio.CancelledError:
        _say_how_to_go_on(handle, inside=session.works)
        raise
    except Detached:
        _say_how_to_go_on(handle, inside=session.works)
        return INTERRUPTED
    if not quiet:
        _say_where_to_look(session, handle, code)
    return code


def _say_where_to_look(session: Session, handle: RunHandle, code: int) -> None:
    if code == DONE:
        say(f"What it did: {command_line('show', handle.id)}", "faint")
    if (url := session.ui_url(handle.id)) and not session.ends_here:
        say(f"Temporal UI: {url}", "faint")


def _say_how_to_go_on(handle: RunHandle, *, inside: bool) -> None:
    say(f"Run {handle.id} goes on without this command." if not inside else f"Run {handle.id} waits for a worker.")
    if inside:
        say(f"  go on: {resume_command(handle.id)}")
    say(f"  watch it: {command_line('watch', handle.id)}    end it: {command_line('cancel', handle.id)}")
