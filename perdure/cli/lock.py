"""`perdure lock`: pins the tools of other systems in a file beside the agent."""

from __future__ import annotations

import asyncio
from pathlib import Path

from click.exceptions import Exit

from ..agents import Agent
from ..errors import ConfigurationError
from ..json_types import JsonObject
from ..prompty.load import lock_beside
from ..redaction import redactor
from ..tool_locks import LOCKABLE, SUFFIX, LockDocument, PinnedTool, changes
from ..tools.inventory import pins_of
from ..tools.kind import Asking, Kinds, ToolKind, ToolOfferError
from .agent_file import load_agent, require_file
from .console import answer, say
from .given import Given
from .problems import FAILED, UsageProblem


def lock(given: Given) -> None:
    """Pin the tools, or compare them with the locks. Raises `UsageProblem`, and `Exit` for
    differences.
    """
    if given.check and (given.update or given.on_change):
        raise UsageProblem(
            "--check writes nothing, --update and --on-change write the lock: leave out one of the "
            "two"
        )
    reports = [_lock(file, given) for file in given.agents]
    if given.as_json:
        answer(reports)
    if any(report["changes"] and not report["written"] for report in reports):
        raise Exit(FAILED)


def _lock(file: Path, given: Given) -> JsonObject:
    require_file(file)
    path = file.with_name(file.name + SUFFIX)
    known = lock_beside(file)
    tools = asyncio.run(_offers(load_agent(file)))
    before = known or LockDocument()
    found = LockDocument(on_change=given.on_change or before.on_change, tools=tools)
    told = [] if known is None else _differences(before, found)
    if known is None and given.check:
        told = [f"{path} is missing: `perdure lock {file}` writes it"]
    accepts = known is None or given.update or (not told and found != known)
    is_written = accepts and not given.check
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
