"""Reads the files of the agents that an agent calls, and of those that they call in turn."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...agent import Agent
from ...agent_settings import settings_of
from ...child_agents import child_tools, key_of, with_keys
from ...delegates import with_delegates
from ...errors import ConfigurationError, LoadError
from ...prompty.load import load
from ...prompty.portable import portable
from ...prompty.references import contained_path
from ..declared_files import with_files

MAX_NESTING = 8
MAX_AGENTS = 100


def recorded_agents(agent: Agent) -> dict[str, Agent]:
    """What a run of the agent records of the others that it can reach: all that lie where its own file says.

    Those that are absent there are left to the workers. Raises as `AgentFiles.find` does.
    """
    if agent._others:
        return dict(agent._others)
    if agent._base_dir is None or not any(child_tools(agent)):
        return {}
    files = AgentFiles(agent._base_dir, agent._file_roots)
    files.find(agent)
    return files.found


class AgentFiles:
    """Finds agents by their paths, in one folder and those below it; `roots` are further folders to read in.

    `known` are agents that need not be read any more.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None,
        roots: Sequence[str | os.PathLike[str]] = (),
        known: Mapping[str, Agent] | None = None,
    ) -> None:
        self._folder = None if folder is None else Path(folder).absolute()
        self._roots = [Path(root).resolve() for root in (self._folder, *roots) if root is not None]
        self._known = dict(known or {})
        self._heights: dict[str, int] = {}
        self.found: dict[str, Agent] = {}
        """Path relative to the run's agent → agent without secrets, ready to be recorded."""
        self.absent: dict[str, str] = {}
        """The same for files that do not exist → the path as it is written."""

    def find(self, agent: Agent, trail: tuple[str, ...] = ()) -> int:
        """Find all that the agent can reach, and return how many levels they are; `trail` is what leads to it.

        Raises LoadError for a path or a file that is wrong, for agents that call each other in a circle and for more
        than `MAX_NESTING` levels, and ConfigurationError for a literal secret.
        """
        levels = 0
        for tool in child_tools(agent):
            key = key_of(tool.path)
            path = (*trail, key)
            if key in trail and tool.mode == "agentic":
                raise LoadError(f"agents call each other in a circle: {' → '.join(path)}")
            child = self._agent(key, tool.path)
            if child is None:
                continue
            if tool.mode == "agentic" and key not in self._heights:
                _require_levels(path, 1)
                self._heights[key] = self.find(child, path)
            height = 1 + (self._heights[key] if tool.mode == "agentic" else 0)
            _require_levels(path, height)
            levels = max(levels, height)
        return levels

    def _agent(self, key: str, written: str) -> Agent | None:
        if key not in self.found and key not in self.absent:
            agent = self._known.get(key) or self._read(key)
            if agent is None:
                self.absent[key] = written
            else:
                self.found[key] = agent
            if len(self.found) > MAX_AGENTS:
                raise LoadError(f"the agent reaches more than {MAX_AGENTS} others")
        return self.found.get(key)

    def _read(self, key: str) -> Agent | None:
        """The agent of a file, as it is recorded; None when there is no such file."""
        if self._folder is None:
            return None
        path = contained_path(key, self._folder, self._roots)
        if not path.exists():
            return None
        loaded = load(path, allowed_file_roots=self._roots, defer_environment=True)
        try:
            settings_of(loaded)
            return with_keys(portable(with_files(with_delegates(loaded))), key)
        except ConfigurationError as error:
            raise ConfigurationError(f"{path}: {error}") from error
        except LoadError as error:
            raise LoadError(f"{path}: {error}") from error


def _require_levels(path: tuple[str, ...], height: int) -> None:
    if len(path) - 1 + height > MAX_NESTING:
        raise LoadError(f"agents call each other more than {MAX_NESTING} levels deep: {' → '.join(path)} …")
