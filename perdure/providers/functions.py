"""What an agent offers to the model: functions, in no wire format yet (§7.1), and the provider's own tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from ..agent import Agent, CustomTool, FunctionTool, OfferedFunction, PromptyTool, Tool
from ..messages import Message
from ..schema import OFFERED, STRICT, object_schema, without_properties
from .memo import Memo

PROVIDER_KIND = "provider"


class FunctionDefinition(NamedTuple):
    """One function as the model sees it."""

    name: str
    description: str | None
    parameters: dict[str, Any]
    """A JSON Schema of `type: object`, without the parameters that take their value from an input (§9.6)."""
    strict: bool = False


def offered_functions(
    agent: Agent,
    extra_tools: Sequence[Mapping[str, Any]] = (),
    *,
    allow_strict: bool = True,
    along_with: Sequence[Message] = (),
) -> list[FunctionDefinition]:
    """The declared tools that have parameters, then the extra ones, each name once.

    `extra_tools` holds `{name, description?, parameters?}` of tools whose parameters only their server knows (MCP,
    OpenAPI, a sub-agent's inputs), `parameters` being a JSON Schema. With `allow_strict=False`, strict tools are
    offered as ordinary ones. `along_with` holds the messages that go to the model with the functions: when they
    are `Unchanging`, so is the agent. Raises ValueError for a union without alternatives.
    """
    declared = _DECLARED[allow_strict].of(agent, along_with=along_with)
    offered = {definition.name: definition for definition in declared}
    for projection in extra_tools:
        definition = _extra(agent, projection)
        offered.setdefault(definition.name, definition)
    return list(offered.values())


def declared_provider_tools(agent: Agent) -> list[CustomTool]:
    """The agent's tools that the provider executes itself."""
    return [tool for tool in agent.tools or () if isinstance(tool, CustomTool) and tool.kind == PROVIDER_KIND]


def additional_tools(agent: Agent) -> list[Any]:
    """Those that `additionalProperties.tools` has, in the provider's own words; [] for anything but a list."""
    options = agent.model.options if agent.model else None
    listed = (options.additional_properties or {}).get("tools") if options else None
    return list(listed) if isinstance(listed, list) else []


def _declared(allow_strict: bool, agent: Agent) -> list[FunctionDefinition]:
    definitions = []
    for tool in agent.tools or []:
        if isinstance(tool, OfferedFunction):
            definitions.append(FunctionDefinition(tool.name, tool.description, tool.schema_))
        elif isinstance(tool, FunctionTool) or (
            isinstance(tool, PromptyTool | CustomTool) and tool.parameters is not None
        ):
            strict = allow_strict and isinstance(tool, FunctionTool) and bool(tool.strict)
            visible = [prop for prop in tool.parameters or [] if prop.name not in _bound(tool)]
            schema = object_schema(visible, STRICT if strict else OFFERED)
            definitions.append(FunctionDefinition(tool.name, tool.description, schema, strict))
    return definitions


_DECLARED = {
    allow_strict: Memo[Agent, FunctionDefinition](partial(_declared, allow_strict)) for allow_strict in (True, False)
}


def _extra(agent: Agent, projection: Mapping[str, Any]) -> FunctionDefinition:
    name = projection["name"]
    tool = agent.tool(name)
    schema = dict(projection.get("parameters") or {"type": "object", "properties": {}})
    bound = _bound(tool) if tool else frozenset()
    return FunctionDefinition(name, projection.get("description"), without_properties(schema, bound))


def _bound(tool: Tool) -> frozenset[str]:
    return frozenset(tool.bindings or ())
