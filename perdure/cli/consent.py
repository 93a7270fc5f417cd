"""Asks before a recorded run that another person may have written uses more of this machine."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from ..agents import Agent, document_of, others_of
from ..arguments import dotted_path
from ..prompty.worker_limits import WorkerLimits
from ..prompty.worker_refusals import refusals
from ..text import one_line, visible
from .console import say
from .problems import Failure, UsageProblem
from .server_connection import CommandMemo


async def require_consent(
    title: str,
    agent: Agent | None,
    memo: CommandMemo | None,
    *,
    is_own: bool,
    yes: bool,
) -> None:
    """Ask a person about everything that a memo's agent and code may not use unasked.

    Code below the current folder needs no consent; on the user's own server (`is_own`), nor does
    any file of the user's. An agent, and those that it records, may do as much as with a worker
    whose owner allowed nothing; on the user's own server, anything. Raises `UsageProblem` without a
    person to ask, and `Failure` for a no.
    """
    sources = dict.fromkeys(_sources(memo)) if memo else ()
    doubts = [f"the code {path}" for path in sources if not _may_be_loaded(path, is_own=is_own)]
    agents = [agent, *others_of(agent).values()] if agent and not is_own else []
    doubts += dict.fromkeys(doubt for each in agents for doubt in _beyond(each))
    if not doubts:
        return
    shown = "\n".join(f"  {visible(one_line(doubt, 500))}" for doubt in doubts)
    if yes:
        say(f"{title} uses:\n{shown}", "faint")
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageProblem(
            f"{title} may not be yours, and would use:\n{shown}\nadd --yes to go on without being "
            "asked"
        )
    say(f"{title} may not be yours. Look at this first:\n{shown}")
    if not await asyncio.to_thread(click.confirm, "Continue?", err=True):
        raise Failure("nothing was started")


def _sources(memo: CommandMemo) -> Iterator[Path]:
    """Yield the files to execute, or the folder in which a module is searched, with links
    resolved.
    """
    folder = Path(memo.folder or ".")
    named = [source for sources in memo.sources.values() for source in sources]
    for source in [*named, *([memo.scripted] if memo.scripted else [])]:
        place = (
            source if source.endswith((".py", ".prompty")) else source.rpartition(":")[0] or source
        )
        yield (
            (folder / place).resolve() if place.endswith((".py", ".prompty")) else folder.resolve()
        )


def _may_be_loaded(path: Path, *, is_own: bool) -> bool:
    if path.is_relative_to(Path.cwd()):
        return True
    try:
        return is_own and path.stat().st_uid == os.getuid()
    except OSError:
        return is_own  # The file is missing, which loading it reports.


def _beyond(agent: Agent) -> list[str]:
    found = refusals(document_of(agent), WorkerLimits.from_environment())
    return [
        f"{dotted_path(place)}: a worker {refused.does} unless its owner allows it"
        for place, refused in found
    ]
