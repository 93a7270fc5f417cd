"""Matches tool functions with an agent's declarations, and binds parameters to inputs (§9.6,
§11.2). Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..agents import Agent
from ..declared_tools import Tool
from ..errors import warn_caller
from ..json_types import JsonObject, JsonView
from ..options import RunOptions
from ..settings.agent_file import settings_of


def bind_tools(agent: Agent, tools: Sequence[Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """Return tool name → function, for functions made with `@tool`. Changes nothing (§11.2).

    Raises ValueError for two functions with one name, and for a function without a `kind: function`
    tool of its name in the agent; warns of such a tool without a function. Raises TypeError for a
    function without `@tool`.
    """
    handlers: dict[str, Callable[..., Any]] = {}
    for function in tools:
        name = _declared_name(function)
        if name in handlers:
            raise ValueError(f"Duplicate tool handler: {name}")
        handlers[name] = function
    declared = [tool.name for tool in agent.tools or [] if tool.kind == "function"]
    for name in handlers:
        if name not in declared:
            raise ValueError(
                f"Tool handler '{name}' has no matching declaration in agent.tools. Declared "
                f"function tools: {', '.join(declared)}"
            )
    for name in declared:
        if name not in handlers:
            text = (
                f"Tool '{name}' is declared in agent.tools but no handler was provided to "
                "bind_tools()"
            )
            warn_caller(text)
    return handlers


def _declared_name(function: Callable[..., Any]) -> str:
    declaration = getattr(function, "__tool__", None)
    if declaration is None:
        raise TypeError(f"{function!r} is not a tool: put @tool above its definition")
    name: str = declaration.name
    return name


def apply_bindings(tool: Tool | None, arguments: JsonView, inputs: JsonView) -> JsonObject:
    """Return the arguments with the input's value for each bound parameter, whatever the model
    wrote (§9.6).

    If that input is absent, the argument stays unchanged.
    """
    bindings = tool.bindings if tool else None
    if not bindings:
        return dict(arguments)
    bound = {
        name: inputs[binding.input] for name, binding in bindings.items() if binding.input in inputs
    }
    return {**arguments, **bound}


def bound_inputs(agents: Sequence[Agent], inputs: JsonView, options: RunOptions) -> JsonObject:
    """Return the inputs that bindings of the agents' tools refer to, with their defaults: all that
    their run needs.

    The rendered messages contain the others. A function that gives instructions needs them all.
    """
    bound = {
        binding.input
        for each in agents
        for tool in each.tools or ()
        for binding in (tool.bindings or {}).values()
    }
    declared = [each for agent in agents for each in agent.inputs or ()]
    if options.instructions_by or any(
        settings_of(each).chosen.get("instructions_by") for each in agents
    ):
        bound |= inputs.keys() | {each.name for each in declared}
    if not bound:
        return {}
    defaults = {each.name: each.default for each in declared if each.default is not None}
    known = {**defaults, **inputs}
    return {name: known[name] for name in sorted(bound) if name in known}
