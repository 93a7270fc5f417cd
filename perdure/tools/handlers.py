"""Collects tools, and finds a tool's code: by its name, else by its kind (§11)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from ..agents import Agent, declared_name, origins_of
from ..declared_tools import OfferedFunction, Tool
from ..errors import ConfigurationError, ToolNotRegisteredError
from ..loading import load_module, split_source
from ..prompty.worker_limits import OPEN, WorkerLimits
from ..toolsets import with_filter, with_prefix
from .kind import KindHandler, Kinds, ToolKind, get_tool

ToolFunction = Callable[..., Any]


class Toolset:
    """A set of tools, usable wherever single ones are: `Toolset(find, update).prefixed("crm")`.

    Args:
        tools: Functions, modules with `@tool` functions, agents with functions, other toolsets, and
            declarations of other tools as in files: `{"name": "files", "kind": "mcp", …}`.

    Raises ConfigurationError for two functions with one name, and for a function without a name.
    """

    def __init__(self, *tools: Any) -> None:
        self.functions: dict[str, ToolFunction] = {}
        """By the names offered to the model."""
        self.declarations: list[dict[str, Any]] = []
        """Declarations of other tools, whose functions are only known when a run begins."""
        self.prepare_tools: dict[str, ToolFunction] = {}
        """The functions of agents that choose the offered tools, by name."""
        self.instructions: dict[str, ToolFunction] = {}
        """The functions of agents that give instructions, by name."""
        for item in tools:
            if isinstance(item, Mapping):
                self.declarations.append(dict(item))
                continue
            if isinstance(item, Toolset):
                self.declarations += item.declarations
            origins = origins_of(item).values() if isinstance(item, Agent) else ()
            for each in (item,) if isinstance(item, Toolset) else origins:
                self.prepare_tools |= each.prepare_tools
                self.instructions |= each.instructions
            for name, function in _functions_of(item):
                add_tool(self.functions, name, function)

    def prefixed(self, prefix: str) -> Toolset:
        """Return the same tools, with names that begin with the prefix and `_`. The functions
        themselves are unchanged.
        """
        functions = {f"{prefix}_{name}": function for name, function in self.functions.items()}
        return self._with(functions, [with_prefix(tool, prefix) for tool in self.declarations])

    def only(self, *names: str) -> Toolset:
        """Return only the tools of these names. Raises ConfigurationError as `without` does."""
        return self._filter(names, keeps=True)

    def without(self, *names: str) -> Toolset:
        """Return the tools without those of these names.

        A name without a function here is one that a declared tool offers, which the run's start
        checks. Raises ConfigurationError for such a name unless exactly one declared tool can offer
        it.
        """
        return self._filter(names, keeps=False)

    def _filter(self, names: Sequence[str], *, keeps: bool) -> Toolset:
        offered = [name for name in names if name not in self.functions]
        try:
            declarations = with_filter(self.declarations, offered, keeps=keeps)
        except ValueError as error:
            known = ", ".join(self.functions) or "none"
            raise ConfigurationError(f"{error}. Functions of this toolset: {known}") from None
        functions = {
            name: each for name, each in self.functions.items() if (name in names) is keeps
        }
        return self._with(functions, declarations)

    def _with(
        self, functions: dict[str, ToolFunction], declarations: Sequence[Mapping[str, Any]]
    ) -> Toolset:
        found = Toolset(*declarations)
        found.functions, found.prepare_tools = functions, self.prepare_tools
        found.instructions = self.instructions
        return found


GivenTools = Toolset | Mapping[str, ToolFunction] | Iterable[Any]
"""Accepted values of `tools=`: a toolset, functions by name, or a list as `Toolset` takes it."""


def collect_tools(given: GivenTools) -> dict[str, ToolFunction]:
    """Return tool name → function. Raises ConfigurationError as `Toolset` does."""
    return toolset_of(given).functions


def toolset_of(given: GivenTools) -> Toolset:
    """Return the given tools as one toolset. Raises ConfigurationError as `Toolset` does."""
    if isinstance(given, Toolset):
        return given
    if not isinstance(given, Mapping):
        return Toolset(*given)
    found = Toolset()
    found.functions = dict(given)
    return found


def _functions_of(
    item: ToolFunction | ModuleType | Agent | Toolset,
) -> list[tuple[str, ToolFunction]]:
    if isinstance(item, Toolset):
        return list(item.functions.items())
    if isinstance(item, Agent):
        return [pair for each in origins_of(item).values() for pair in each.functions.items()]
    functions = tools_of_module(item) if isinstance(item, ModuleType) else [item]
    return [(tool_name(function), function) for function in functions]


def add_tool(collected: dict[str, ToolFunction], name: str, function: ToolFunction) -> None:
    """Add one function. Raises ConfigurationError if another one has the name."""
    if collected.setdefault(name, function) is not function:
        places = " and ".join(_place(each) for each in (collected[name], function))
        raise ConfigurationError(
            f"Duplicate tool handler: {name} (defined by {places}): rename one, or give it a "
            "prefix, such as Toolset(function).prefixed('shop')"
        )


def tool_name(function: ToolFunction) -> str:
    """Return the name given by `@tool`, else the function's own. Raises ConfigurationError without
    either.
    """
    declaration = getattr(function, "__tool__", None)
    name: str | None = declaration.name if declaration else getattr(function, "__name__", None)
    if not name or name == "<lambda>":
        raise ConfigurationError(
            f"{function!r} has no name: decorate it with @tool(name=…), or give {{name: function}}"
        )
    return name


def tools_of_module(module: ModuleType) -> list[ToolFunction]:
    """Return the `@tool` functions among a module's names, imported ones included, each once."""
    members = (member for name, member in vars(module).items() if not name.startswith("__"))
    return list(
        {
            id(member): member
            for member in members
            if hasattr(member, "__tool__") and callable(member)
        }.values()
    )


def _place(function: ToolFunction) -> str:
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', '?')}"


class Handler(NamedTuple):
    """The code of one tool: a function or a kind."""

    tool: Tool
    function: Callable[..., Any] | None = None
    """The function of that name, or the handler of the kind, which is called with `(tool,
    arguments, agent, inputs)`.
    """
    is_by_name: bool = False
    kind: ToolKind | None = None
    limits: WorkerLimits = OPEN
    """Limits for agents on the worker."""


class Handlers:
    """Tools and kinds of a worker, which take precedence over the process-wide registries.

    Raises ConfigurationError for two tools with one name, for a function without a name, and for an
    invalid kind.
    """

    def __init__(
        self,
        tools: GivenTools = (),
        kinds: Mapping[str, ToolKind | KindHandler] | None = None,
        *,
        registered: bool = True,
        limits: WorkerLimits = OPEN,
    ) -> None:
        """With `registered=False`, functions registered by `@tool` in this process are not tools
        here.
        """
        self._tools = collect_tools(tools)
        self.kinds = Kinds(kinds)
        self._registered = registered
        self._limits = limits

    @property
    def names(self) -> list[str]:
        """Names of the given functions, sorted."""
        return sorted(self._tools)

    @property
    def limited(self) -> dict[str, int]:
        """The given functions with a `max_parallel`, and its value."""
        specs = {
            name: getattr(function, "__tool_spec__", None) for name, function in self._tools.items()
        }
        return {
            name: spec.max_parallel for name, spec in specs.items() if spec and spec.max_parallel
        }

    def find(self, tool: Tool) -> Handler | None:
        """Return the handler of a declared tool; None without one.

        Raises ConfigurationError for a kind that can't be loaded.
        """
        name = declared_name(tool)
        if function := self._tools.get(name) or (self._registered and get_tool(name)):
            return Handler(tool, function, is_by_name=True)
        return self._by_kind(tool, tool.kind)

    def of_call(self, name: str, agent: Agent) -> Handler:
        """Return the handler of a function that the model calls.

        Raises ToolNotRegisteredError without a handler, and for a function that the agent does not
        offer: its model can't call that one, with or without code. Raises ConfigurationError as
        `find` does.
        """
        tool = agent.tool(name)
        if tool is None:
            raise ToolNotRegisteredError(f"Tool not registered: {name}")
        if not isinstance(tool, OfferedFunction) and (found := self.find(tool)):
            return found
        kind = agent.source(tool).kind
        if isinstance(tool, OfferedFunction) and (found := self._by_kind(tool, kind)):
            return found
        raise ToolNotRegisteredError(f"No handler registered for tool: {name} (kind: {kind})")

    def _by_kind(self, tool: Tool, name: str) -> Handler | None:
        kind = self.kinds.get(name)
        if kind is None:
            return None
        return (
            Handler(tool, kind=kind, limits=self._limits)
            if isinstance(kind, ToolKind)
            else Handler(tool, kind)
        )


def load_tools(*sources: str) -> dict[str, Callable[..., Any]]:
    """Return tool name → function, for all sources together.

    A source is a module or a Python file, followed by `:name1,name2` for some of its functions;
    without names, all `@tool` functions are loaded. A file is executed at each call, a module is
    imported once, as usual. Meanwhile, modules in the working directory (for a file, in its folder)
    can be imported.

    Raises ConfigurationError, with the remedy, for a source that can't be imported, an unknown
    name, a source without tools, and two tools with one name.
    """
    loaded: dict[str, Callable[..., Any]] = {}
    for source in sources:
        place, names = split_source(source)
        for item in _pick(load_module(place), place, names):
            for name, function in _functions_of(item):
                add_tool(loaded, name, function)
    return loaded


def _pick(module: ModuleType, place: str, names: list[str]) -> Sequence[ToolFunction | Toolset]:
    tools = tools_of_module(module)
    if not names:
        toolsets = (each for each in vars(module).values() if isinstance(each, Toolset))
        found: list[ToolFunction | Toolset] = [*tools, *toolsets]
        if not found:
            raise ConfigurationError(
                f"No tools in {place!r}: put @tool above a function there, or name functions: "
                f"{place}:name1,name2"
            )
        return found
    by_name = {tool_name(tool): tool for tool in tools}
    return [_attribute(module, place, name, by_name) for name in names]


def _attribute(
    module: ModuleType, place: str, name: str, by_name: dict[str, ToolFunction]
) -> ToolFunction | Toolset:
    found = by_name.get(name) or getattr(module, name, None)
    if callable(found) or isinstance(found, Toolset):
        return found
    tools = ", ".join(by_name) or "none"
    raise ConfigurationError(f"No function {name!r} in {place!r}; tools there: {tools}")
