"""What the first model call of a run is sent, and how the run would execute its tools; nothing is called."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..agents import Agent
from ..declared_tools import ToolPolicy
from ..json_types import JsonObject
from ..prompty.prepare import prepare
from ..providers.registry import to_request
from ..tool_calls import ToolSpec
from ..tools.declaration import completed_declaration
from ..tools.dispatch import ToolBox
from ..tools.inventory import with_policy
from ..tools.kind import Asking
from .agent_file import read_inputs


def first_request(
    agent: Agent, pairs: list[str], inputs_json: Path | None, functions: Mapping[str, Callable[..., Any]]
) -> JsonObject:
    """Return the keyword arguments of a run's first model call, as the provider's SDK gets them."""
    found = [
        completed_declaration(tool, functions[tool.name]) if tool.name in functions else tool
        for tool in agent.tools or ()
    ]
    agent = agent.model_copy(update={"tools": found or None})
    return to_request(agent, prepare(agent, read_inputs(agent, pairs, inputs_json)))


def tool_specs(
    agent: Agent, pairs: list[str], inputs_json: Path | None, functions: Mapping[str, Callable[..., Any]]
) -> list[JsonObject]:
    """Return how calls of each tool are executed, as far as file, function and kind say: others are not asked."""
    asking = Asking(agent, read_inputs(agent, pairs, inputs_json))
    found = asyncio.run(ToolBox(functions).inventory(asking, may_ask=False))
    known = {spec.name for spec in found.tools}
    fields = {"name", *ToolPolicy.model_fields, "needs_approval", "approval_check", "deciders"}
    specs = [spec.model_dump(include=fields) for spec in found.tools]
    for tool in agent.tools or []:
        if tool.name in known or not (tool.name in found.missing or tool.name in found.unasked):
            continue
        spec = with_policy(ToolSpec(name=tool.name), tool.perdure, is_function=False)
        said = {"name", "needs_approval", *(tool.perdure.model_fields_set if tool.perdure else ())}
        specs.append(spec.model_dump(include=fields & said if tool.name in found.unasked else fields))
    return specs
