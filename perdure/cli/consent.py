"""Lists what a recorded run would use of this machine, and asks first if another person may have
written it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from ..activities.limited import refusals
from ..agents import Agent, others_of
from ..arguments import dotted_path
from ..json_types import JsonView
from ..prompty.portable import credential_id, document_of, env_name
from ..prompty.shorthands import strings
from ..text import one_line, visible
from ..worker_limits import WorkerLimits, server_in
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
    quiet: bool = False,
) -> None:
    """List everything that a memo's agent and code use, and continue if no consent is needed or a
    person says yes.

    Code below the current folder needs no consent; on the user's own server (`is_own`), nor does
    any file of the user's. An agent, and those that it records, may do as much as with a worker
    whose owner allowed nothing; on the user's own server, anything. Raises `UsageProblem` without a
    person to ask, and `Failure` for a no.
    """
    sources = list(dict.fromkeys(_sources(memo))) if memo else []
    agents = [agent, *others_of(agent).values()] if agent else []
    uses = [
        *(f"code: {path}" for path in sources),
        *dict.fromkeys(use for each in agents for use in _uses(each)),
    ]
    doubts = [f"the code {path}" for path in sources if not _may_be_loaded(path, is_own=is_own)]
    doubts += [] if is_own else dict.fromkeys(doubt for each in agents for doubt in _beyond(each))
    shown = visible(one_line("; ".join(uses), 2000))
    if uses and (doubts or not quiet):
        say(f"{title} uses {shown}", "strong" if doubts and not yes else "faint")
    if not doubts or yes:
        return
    told = "\n".join(f"  {visible(one_line(doubt, 500))}" for doubt in doubts)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageProblem(
            f"{title} may not be yours, and would use:\n{told}\nadd --yes to go on without being "
            "asked"
        )
    say(f"It may not be yours. Look at this first:\n{told}")
    if not await asyncio.to_thread(click.confirm, "Go on?", err=True):
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


def _uses(agent: Agent) -> Iterator[str]:
    """Yield the hosts, variables, credentials and commands that an agent names, each kind in one
    text.
    """
    document = document_of(agent)
    reached = {key: value for key, value in document.items() if key in ("model", "tools")}
    texts = [
        text
        for place, text in strings(reached)
        if {"connection", "options", "specification"} & {*place}
    ]
    named: JsonView = {
        "hosts": [_host(text) for text in texts],
        "variables": map(env_name, texts),
        "credentials": map(credential_id, texts),
        "commands": [_command(tool) for tool in document.get("tools") or []],
    }
    for what, names in named.items():
        if found := ", ".join(dict.fromkeys(filter(None, names))):
            yield f"{what}: {found}"


def _host(text: str) -> str:
    server = server_in(text)
    return server.address if server else ""


def _command(tool: JsonView) -> str:
    options = tool.get("options")
    command = options.get("command") if isinstance(options, Mapping) else None
    return (
        " ".join(map(str, [command, *(options.get("args") or [])])) if command and options else ""
    )
