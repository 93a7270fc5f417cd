"""`perdure lock`: pins the tools of other systems in a file beside the agent."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from ..agents import Agent
from ..errors import ConfigurationError
from ..json_types import JsonObject
from ..prompty.load import lock_beside
from ..redaction import redactor
from ..tool_locks import LOCKABLE, SUFFIX, LockDocument, PinnedTool, changes
from ..tools.inventory import pins_of
from ..tools.kind import Asking, Kinds, ToolKind, ToolOfferError
from . import shared_options as options
from .agent_file import load_agent, require_file
from .console import answer, say
from .problems import FAILED, UsageProblem


def lock(
    agents: Annotated[
        list[Path],
        typer.Argument(metavar="AGENT.prompty…", help="The agents whose tools are pinned."),
    ],
    update: Annotated[bool, typer.Option("--update", help="Accept the changes.")] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Write nothing; exit code 1 without a lock or if it differs. For CI."
        ),
    ] = False,
    on_change: Annotated[
        str | None,
        typer.Option(
            metavar="stop|ask",
            help="The effect of a change on a run: it stops, or a person is asked.",
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Pin the tools of MCP servers, OpenAPI documents and A2A cards in AGENT.prompty.lock.

    Names, descriptions, schemas and hosts. A run whose tools offer something else stops before its
    first model call. Without --update, what has changed is shown, and the file stays. Sub-agents
    have locks of their own.
    """
    _require_fitting(update, check, on_change)
    reports = [_lock(file, update=update, check=check, on_change=on_change) for file in agents]
    if as_json:
        answer(reports)
    if any(report["changes"] and not report["written"] for report in reports):
        raise typer.Exit(FAILED)


def _require_fitting(update: bool, check: bool, on_change: str | None) -> None:
    """Raises `UsageProblem` for options that contradict each other, and for any other word than
    `stop` and `ask`.
    """
    if update and check:
        raise UsageProblem(
            "--update writes the lock, and --check only looks at it: leave out one of the two"
        )
    if on_change not in (None, "stop", "ask"):
        raise UsageProblem(f"--on-change {on_change!r}: expected stop or ask")
    if on_change and check:
        raise UsageProblem(
            "--on-change is written into the lock, and --check writes nothing: leave out one of "
            "the two"
        )


def _lock(file: Path, *, update: bool, check: bool, on_change: str | None) -> JsonObject:
    require_file(file)
    path = file.with_name(file.name + SUFFIX)
    known = lock_beside(file)
    tools = asyncio.run(_offers(load_agent(file)))
    before = known or LockDocument()
    found = LockDocument(on_change=on_change or before.on_change, tools=tools)
    told = [] if known is None else _differences(before, found)
    if known is None and check:
        told = [f"{path} is missing: `perdure lock {file}` writes it"]
    is_written = not check and (known is None or update or (not told and found != known))
    if is_written:
        path.write_text(found.text, encoding="utf-8")
    for each in told:
        say(each)
    count = sum(len(tool.functions) for tool in tools.values())
    if is_written:
        say(f"{path}: written, {count} functions of {len(tools)} tools", "good")
    elif told:
        say(f"{path}: differs. To take that over: perdure lock --update {file}", "bad")
    else:
        say(f"{path}: {count} functions of {len(tools)} tools, as they are offered", "good")
    return {"agent": str(file), "lock": str(path), "written": is_written, "changes": told}


def _differences(before: LockDocument, now: LockDocument) -> list[str]:
    names = sorted(before.tools.keys() | now.tools.keys())
    nothing = PinnedTool()
    return [
        line
        for name in names
        for line in changes(name, before.tools.get(name, nothing), now.tools.get(name, nothing))
    ]


async def _offers(agent: Agent) -> dict[str, PinnedTool]:
    """Return the tools that the agent's servers offer now. Raises ConfigurationError if a server
    can't be read.
    """
    found: dict[str, PinnedTool] = {}
    kinds, asking = Kinds(), Asking(agent, {}, None)
    try:
        for tool in agent.tools or ():
            if tool.kind not in LOCKABLE:
                continue
            kind = kinds.get(tool.kind)
            assert isinstance(kind, ToolKind)
            try:
                offerings = await kind.offer(tool, asking)
            except ToolOfferError as error:
                raise ConfigurationError(
                    f"what the tool {tool.name!r} offers can't be found out: {error}"
                ) from error
            now = pins_of(tool, offerings).model_dump_json()
            found[tool.name] = redactor(agent).value(PinnedTool.model_validate_json(now))
    finally:
        await kinds.close()
    return found
