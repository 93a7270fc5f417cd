"""The agents that an agent calls: how it names their files, and what a run records of them (requirement §9.6)."""

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
"""Before an agent's name: the name of the tool that delegates to it."""
TRANSFER = "transfer_to_"
"""Before an agent's name: the name of the tool by which a run goes on as that agent."""
TASK = "task"
DELEGATION_FAILED = "[Delegation failed: "
"""How the result begins of a task that a remote agent has not answered."""


def child_tools(agent: Agent) -> Iterator[PromptyTool]:
    """Yield the tools of the agent that are other agents."""
    return (tool for tool in agent.tools or () if isinstance(tool, PromptyTool))


def handoffs_of(agent: Agent, agents: Mapping[str, Agent]) -> dict[str, Agent]:
    """Return the agents as which a run of this one may go on, however often it is handed over, by path."""
    return _reached(agent, agents, lambda tool: tool.is_handoff)


def written_action(name: str, arguments: object) -> str:
    """Return a tool call as a model writes it that is told of its tools in the prompt."""
    task = arguments.get(TASK) if isinstance(arguments, dict) else None
    if name.startswith(DELEGATE) and isinstance(task, str):
        return json.dumps({"agent": name.removeprefix(DELEGATE), "task": task}, ensure_ascii=False)
    return json.dumps({"tool": name, "arguments": arguments}, ensure_ascii=False)


def key_of(written: str, folder: str = "") -> str:
    """Path of a file relative to the run's agent, as a key; `folder` is where the file that names it lies.

    Nothing is looked up. Raises LoadError for a path that is not relative, or not that of a `.prompty` file.
    """
    if "\\" in written or not written.isprintable():
        raise LoadError(f"{written!r} is not the path of another agent: expected one with '/' between its folders")
    if posixpath.isabs(written) or PureWindowsPath(written).drive or written.startswith("~") or "://" in written:
        raise LoadError(f"{written!r} is not a relative path: write it relative to the file that names it")
    if not written.endswith(SUFFIX):
        raise LoadError(f"{written!r} is not the path of another agent: expected a {SUFFIX} file")
    return posixpath.normpath(posixpath.join(folder, written))


def with_keys(agent: Agent, key: str) -> Agent:
    """Copy of the agent of that key whose tools name other agents by their keys. Raises LoadError as `key_of`."""
    folder = posixpath.dirname(key)
    tools = [
        tool.model_copy(update={"path": key_of(tool.path, folder)}) if isinstance(tool, PromptyTool) else tool
        for tool in agent.tools or ()
    ]
    return agent.model_copy(update={"tools": tools}) if tools else agent


def agents_for(agent: Agent, agents: Mapping[str, Agent]) -> dict[str, Agent]:
    """Those of the agents that this one can reach, which names them by their keys."""
    return _reached(agent, agents, lambda tool: True)


def _reached(agent: Agent, agents: Mapping[str, Agent], leads: Callable[[PromptyTool], bool]) -> dict[str, Agent]:
    reached: dict[str, Agent] = {}
    ahead = [agent]
    while ahead:
        for tool in filter(leads, child_tools(ahead.pop())):
            key = key_of(tool.path)
            if key in agents and key not in reached:
                reached[key] = agents[key]
                ahead.append(agents[key])
    return dict(sorted(reached.items()))
