"""Finds the code behind a tool: by its name, else by its kind (§11)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from ..agent import Agent, OfferedFunction, Tool
from ..errors import ToolNotRegisteredError
from ..worker_limits import OPEN, WorkerLimits
from .collect import collect_tools
from .kind import ToolKind
from .kinds import Kinds
from .registry import KindHandler, get_tool


class Handler(NamedTuple):
    """The code behind one tool: a function or a kind."""

    tool: Tool
    function: Callable[..., Any] | None = None
    """The function of that name, or the handler of the kind, which is called with `(tool, arguments, agent, inputs)`.
    """
    is_by_name: bool = False
    kind: ToolKind | None = None
    limits: WorkerLimits = OPEN
    """What agents may use of the worker."""


class Handlers:
    """The tools and kinds of a worker, which come before those of the process-wide registries.

    Raises ConfigurationError for two tools of one name, for a function without a name, and for a kind that is none.
    """

    def __init__(
        self,
        tools: Mapping[str, Callable[..., Any]] | Sequence[Callable[..., Any] | ModuleType] = (),
        kinds: Mapping[str, ToolKind | KindHandler] | None = None,
        *,
        registered: bool = True,
        limits: WorkerLimits = OPEN,
    ) -> None:
        """Without `registered`, the functions that `@tool` has registered in this process are no tools here."""
        self._tools = dict(tools) if isinstance(tools, Mapping) else collect_tools(tools)
        self.kinds = Kinds(kinds)
        self._registered = registered
        self._limits = limits

    @property
    def names(self) -> list[str]:
        """The names of the functions that were given, sorted."""
        return sorted(self._tools)

    def find(self, tool: Tool) -> Handler | None:
        """The handler of a declared tool; None when there is none.

        Raises ConfigurationError for a kind that can't be loaded.
        """
        if function := self._tools.get(tool.name) or (self._registered and get_tool(tool.name)):
            return Handler(tool, function, is_by_name=True)
        return self._by_kind(tool, tool.kind)

    def of_call(self, name: str, agent: Agent) -> Handler:
        """The handler of a function that the model calls.

        Raises ToolNotRegisteredError when there is none, and for a function that the agent does not offer: its model
        can't call that one, whether it has code or not. Raises ConfigurationError as `find` does.
        """
        tool = agent.tool(name)
        if tool is None:
            raise ToolNotRegisteredError(f"Tool not registered: {name}")
        is_offered = isinstance(tool, OfferedFunction)
        kind = agent.source(tool).kind
        if found := self._by_kind(tool, kind) if is_offered else self.find(tool):
            return found
        raise ToolNotRegisteredError(f"No handler registered for tool: {name} (kind: {kind})")

    def _by_kind(self, tool: Tool, name: str) -> Handler | None:
        kind = self.kinds.get(name)
        if kind is None:
            return None
        return Handler(tool, kind=kind, limits=self._limits) if isinstance(kind, ToolKind) else Handler(tool, kind)
