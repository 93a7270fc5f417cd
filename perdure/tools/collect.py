"""Collects tool functions by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from ..agent import Agent
from ..errors import ConfigurationError

ToolFunction = Callable[..., Any]


def collect_tools(given: Iterable[ToolFunction | ModuleType | Agent]) -> dict[str, ToolFunction]:
    """Tool name → function, from functions, from modules with `@tool` functions, and from agents with functions.

    Raises ConfigurationError for two functions of one name, and for a function without a name.
    """
    collected: dict[str, ToolFunction] = {}
    for item in given:
        for name, function in _functions_of(item):
            add_tool(collected, name, function)
    return collected


def _functions_of(item: ToolFunction | ModuleType | Agent) -> list[tuple[str, ToolFunction]]:
    if isinstance(item, Agent):
        return list(item._functions.items())
    functions = tools_of_module(item) if isinstance(item, ModuleType) else [item]
    return [(tool_name(function), function) for function in functions]


def add_tool(collected: dict[str, ToolFunction], name: str, function: ToolFunction) -> None:
    """Add one function. Raises ConfigurationError when another one has the name."""
    if collected.setdefault(name, function) is not function:
        places = " and ".join(_place(each) for each in (collected[name], function))
        raise ConfigurationError(f"Duplicate tool handler: {name} (defined by {places}): rename one")


def tool_name(function: ToolFunction) -> str:
    """The name that `@tool` gave, else the function's own. Raises ConfigurationError when there is neither."""
    declaration = getattr(function, "__tool__", None)
    name: str | None = declaration.name if declaration else getattr(function, "__name__", None)
    if not name or name == "<lambda>":
        raise ConfigurationError(
            f"{function!r} has no name: decorate it with @tool(name=…), or give {{name: function}}"
        )
    return name


def tools_of_module(module: ModuleType) -> list[ToolFunction]:
    """The `@tool` functions among a module's names, imported ones included, each once."""
    members = (member for name, member in vars(module).items() if not name.startswith("__"))
    return list({id(member): member for member in members if hasattr(member, "__tool__") and callable(member)}.values())


def _place(function: ToolFunction) -> str:
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', '?')}"
