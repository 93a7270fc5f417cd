"""The agents that an agent calls: how it names their files, and what a run records of them (requirement §9.6)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import PureWindowsPath
from typing import Any

from .agent import Agent, PromptyTool, Property, ToolPolicy
from .errors import LoadError

SUFFIX = ".prompty"
DELEGATE = "delegate_to_"
TASK = "task"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,52}")


def child_tools(agent: Agent) -> Iterator[PromptyTool]:
    """The tools of the agent that are other agents."""
    return (tool for tool in agent.tools or () if isinstance(tool, PromptyTool))


def key_of(written: str, folder: str = "") -> str:
    """The path of a file relative to the run's agent, as a key; `folder` is where the file that names it lies.

    Nothing is looked up. Raises LoadError for a path that is not relative, or not that of a `.prompty` file.
    """
    if "\\" in written or not written.isprintable():
        raise LoadError(f"{written!r} is no path of another agent: expected one with '/' between its folders")
    if posixpath.isabs(written) or PureWindowsPath(written).drive or written.startswith("~") or "://" in written:
        raise LoadError(f"{written!r} is no relative path: write it relative to the file that names it")
    if not written.endswith(SUFFIX):
        raise LoadError(f"{written!r} is no path of another agent: expected a {SUFFIX} file")
    return posixpath.normpath(posixpath.join(folder, written))


def with_keys(agent: Agent, key: str) -> Agent:
    """A copy of the agent of that key whose tools name other agents by their keys. Raises LoadError as `key_of`."""
    folder = posixpath.dirname(key)
    tools = [
        tool.model_copy(update={"path": key_of(tool.path, folder)}) if isinstance(tool, PromptyTool) else tool
        for tool in agent.tools or ()
    ]
    return agent.model_copy(update={"tools": tools}) if tools else agent


def agents_for(agent: Agent, agents: Mapping[str, Agent]) -> dict[str, Agent]:
    """Those of the agents that this one can reach, which names them by their keys."""
    reached: dict[str, Agent] = {}
    ahead = [agent]
    while ahead:
        for tool in child_tools(ahead.pop()):
            key = key_of(tool.path)
            if key in agents and key not in reached:
                reached[key] = agents[key]
                ahead.append(agents[key])
    return dict(sorted(reached.items()))


def with_delegates(agent: Agent) -> Agent:
    """A copy that declares a tool `delegate_to_NAME` for each of `metadata.perdure.agents`; itself without any.

    Such a tool takes a task, which is said to the agent of that name. Raises LoadError for an entry that is wrong.
    """
    tools = list(agent.tools or ())
    known = {tool.name for tool in tools}
    new = [_delegate(entry) for entry in _entries(agent)]
    for tool in new:
        if tool.name in known:
            raise LoadError(f"metadata.perdure.agents: there is a tool {tool.name!r} already")
        known.add(tool.name)
    return agent.model_copy(update={"tools": [*tools, *new]}) if new else agent


def _entries(agent: Agent) -> list[Any]:
    settings = (agent.metadata or {}).get("perdure")
    entries = settings.get("agents") if isinstance(settings, Mapping) else None
    if entries is None:
        return []
    if not isinstance(entries, list):
        raise LoadError(f"metadata.perdure.agents: expected a list of {{name, path, description}}, got {entries!r:.80}")
    # A run records its agent with these tools: that one is not expanded once more.
    declared = {tool.name for tool in child_tools(agent) if tool.perdure is not None and tool.perdure.message == TASK}
    return [each for each in entries if not (isinstance(each, Mapping) and f"{DELEGATE}{each.get('name')}" in declared)]


def _delegate(entry: Any) -> PromptyTool:
    where = f"metadata.perdure.agents: {entry!r:.80}"
    if not isinstance(entry, Mapping):
        raise LoadError(f"{where}: expected {{name, path, description}}")
    name, path, description = entry.get("name"), entry.get("path"), entry.get("description")
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise LoadError(f"{where}: expected a name of at most 52 letters, digits, '_' and '-'")
    if not isinstance(path, str):
        raise LoadError(f"{where}: expected the path of a {SUFFIX} file")
    if not isinstance(description, str | None):
        raise LoadError(f"{where}: expected a text as description")
    task = Property(name=TASK, kind="string", required=True, description="What the agent is to do, in full")
    return PromptyTool(
        name=f"{DELEGATE}{name}",
        path=path,
        mode="agentic",
        description=description,
        parameters=[task],
        perdure=ToolPolicy(message=TASK),
    )
