"""What an agent's tools have in files beside the agent's own, taken along when the agent is recorded."""

from __future__ import annotations

from ..agents import Agent
from ..declared_tools import OpenApiTool


def with_files(agent: Agent) -> Agent:
    """A copy that does without the files of its tools, wherever its workers are; itself where there are none.

    Raises LoadError for a file that is wrong.
    """
    if not any(isinstance(tool, OpenApiTool) for tool in agent.tools or ()):
        return agent
    from .openapi.sources import with_specifications

    return with_specifications(agent)
