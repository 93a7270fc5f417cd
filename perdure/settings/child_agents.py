"""The agents that an agent calls: the paths of their files, and their records in a run (requirement
§9.6).
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterator, Mapping
from pathlib import PureWindowsPath

from ..agents import Agent
from ..declared_tools import PromptyTool
from ..errors import LoadError

SUFFIX = ".prompty"
DELEGATE = "delegate_to_"
"""Prefix of the tool that delegates to an agent; the agent's name follows."""
TRANSFER = "transfer_to_"
"""Prefix of the tool by which a run continues as another agent; the agent's name follows."""
TASK = "task"
DELEGATION_FAILED = "[Delegation failed: "
"""The beginning of the result of a task that a remote agent did not answer."""


def child_tools(agent: Agent) -> Iterator[PromptyTool]:
    """Yield the tools of the agent that are other agents."""
    return (tool for tool in agent.tools or () if isinstance(tool, PromptyTool))


def handoffs_of(agent: Agent, agents: Mapping[str, Agent]) -> dict[str, Agent]:
    """Return the agents that may take over a run of this one, by path, including those after
    further handoffs.
    """
    return _reached(agent, agents, lambda tool: tool.is_handoff)


def written_action(name: str, arguments: object) -> str:
    """Return a tool call in the form in which a model without native tools writes it."""
    task = arguments.get(TASK) if isinstance(arguments, dict) else None
    if name.startswith(DELEGATE) and isinstance(task, str):
        return json.dumps({"agent": name.removeprefix(DELEGATE), "task": task}, ensure_ascii=False)
    return json.dumps({"tool": name, "arguments": arguments}, ensure_ascii=False)


def key_of(written: str, folder: str = "") -> str:
    """Key of a file: its path relative to the run's agent; `folder` is the folder of the file that
    names it.

    Does not access the disk. Raises LoadError for a path that is absolute or does not end in
    `.prompty`.
    """
    if "\\" in written or not written.isprintable():
        raise LoadError(
            f"{written!r} is not the path of another agent: expected one with '/' between its "
            "folders"
        )
    if (
        posixpath.isabs(written)
        or PureWindowsPath(written).drive
        or written.startswith("~")
        or "://" in written
    ):
        raise LoadError(
            f"{written!r} is not a relative path: write it relative to the file that names it"
        )
    if not written.endswith(SUFFIX):
        raise LoadError(f"{written!r} is not the path of another agent: expected a {SUFFIX} file")
    return posixpath.normpath(posixpath.join(folder, written))


def with_keys(agent: Agent, key: str) -> Agent:
    """Copy of the agent of that key, whose tools name other agents by their keys. Raises LoadError
    as `key_of`.
    """
    folder = posixpath.dirname(key)
    tools = [
        tool.model_copy(update={"path": key_of(tool.path, folder)})
        if isinstance(tool, PromptyTool)
        else tool
        for tool in agent.tools or ()
    ]
    return agent.model_copy(update={"tools": tools}) if tools else agent


def agents_for(agent: Agent, agents: Mapping[str, Agent]) -> dict[str, Agent]:
    """Those of the agents that this one, which names them by their keys, can reach."""
    return _reached(agent, agents, lambda tool: True)


def _reached(
    agent: Agent, agents: Mapping[str, Agent], leads: Callable[[PromptyTool], bool]
) -> dict[str, Agent]:
    reached: dict[str, Agent] = {}
    ahead = [agent]
    while ahead:
        for tool in filter(leads, child_tools(ahead.pop())):
            key = key_of(tool.path)
            if key in agents and key not in reached:
                reached[key] = agents[key]
                ahead.append(agents[key])
    return dict(sorted(reached.items()))
