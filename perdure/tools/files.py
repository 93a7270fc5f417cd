"""Records the files that an agent's tools name in the run, so that workers do not need those
files.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..agents import Agent, loaded_from, others_of
from ..declared_tools import Tool
from ..errors import LoadError
from ..settings.child_agents import SUFFIX, agents_for, child_tools, key_of
from ..text import did_you_mean
from .kind import Kinds, RunStart


def record_tools(
    agent: Agent, kinds: Kinds | None = None, *, is_child: bool = False
) -> tuple[Agent, dict[str, Agent]]:
    """Return the agent with the records of its tools' kinds, and the agents of other files that its
    run records, by path.

    Raises LoadError for an invalid file, ConfigurationError for a literal secret in another agent's
    file and for a kind that can't be loaded.
    """
    origin, kinds = loaded_from(agent), kinds or Kinds()
    folder = None if origin.base_dir is None else Path(origin.base_dir)
    roots = [Path(root).resolve() for root in (origin.base_dir, *origin.roots) if root is not None]
    start = RunStart(agent, folder, roots, dict(others_of(agent)), is_child)
    tools = [_tool_with_record(tool, start, kinds) for tool in agent.tools or ()]
    if any(new is not old for new, old in zip(tools, agent.tools or (), strict=True)):
        agent = agent.model_copy(update={"tools": tools})
    return agent, start.agents


def agents_of_run(agent: Agent, others: dict[str, Agent]) -> dict[str, Agent]:
    """Return the agents that a run records: the others, and the agent itself if its run may hand
    back to it.

    Raises LoadError for a missing agent to hand over to.
    """
    if not any(tool.is_handoff for tool in agent.tools or ()):
        return others
    origin = loaded_from(agent)
    known = {**others, origin.path: agent}
    agents = agents_for(agent, known)
    for tool in [tool for each in (agent, *agents.values()) for tool in child_tools(each)]:
        if tool.is_handoff and key_of(tool.path) not in agents:
            raise LoadError(f"tool {tool.name!r}: {_absent(tool.path, known, origin.base_dir)}")
    return agents


def _absent(path: str, agents: Iterable[str], base_dir: str | None) -> str:
    """Return the error text for a missing agent of that path; code may name it without the
    suffix.
    """
    if base_dir is not None:
        return (
            f"there is no file {path!r} of an agent to hand over to in "
            f"{base_dir!r}{did_you_mean(path, agents)}"
        )
    name, known = path.removesuffix(SUFFIX), [each.removesuffix(SUFFIX) for each in agents]
    return (
        f"there is no agent {name!r} to hand over to{did_you_mean(name, known)}. Expected one of "
        f"the agents among the handoffs ({', '.join(known)}), or the path of a file, which needs "
        "base_dir=… of perdure.agent"
    )


def _tool_with_record(tool: Tool, start: RunStart, kinds: Kinds) -> Tool:
    if getattr(tool, "recorded", None) or (kind := kinds.recording(tool.kind)) is None:
        return tool
    try:
        text = kind.record(tool, start)
    except LoadError as error:
        if error.field:  # It names its place.
            raise
        raise LoadError(f"tool {tool.name!r}: {error}") from error
    return tool if text is None else tool.model_copy(update={"recorded": text})
