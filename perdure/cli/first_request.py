"""Builds the request of a run's first model call and shows how its tools would be executed, without
calling any.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from ..agents import Agent, others_of
from ..declared_tools import ToolPolicy
from ..errors import ModelError, RunError
from ..guardrails import prepare_functions
from ..json_types import JsonObject
from ..messages import Message
from ..options import RunOptions
from ..providers.registry import to_request
from ..settings.agent_file import options_for
from ..testing.in_process import InProcessRun
from ..text import one_line
from ..tool_calls import ToolSpec
from ..tools.inventory import ToolInventory, with_policy
from ..tools.kind import Asking
from .console import say


class _FirstCall(InProcessRun):
    """A run in this process that stops before its first model call."""

    def __init__(
        self,
        agent: Agent,
        inputs: JsonObject,
        functions: Mapping[str, Callable[..., Any]],
        options: RunOptions,
        deps: Any,
    ) -> None:
        super().__init__(
            agent,
            model=self._refuse,
            inputs=inputs,
            tools=functions,
            options=options,
            deps=deps,
        )
        self.found = ToolInventory()
        self.request: JsonObject | None = None

    async def _offered_tools(self) -> dict[str, ToolSpec]:
        """Only tools that file, function and kind describe: other servers are not contacted."""
        effects = self.effects
        asking = Asking(effects.agent, effects.inputs, agents=others_of(effects.agent))
        self.found = await effects.toolbox.inventory(asking, may_ask=False)
        effects.agent = effects.agent.with_declarations(self.found.offered)
        return {spec.name: spec for spec in self.found.tools}

    async def _instruct(self, own: list[Message]) -> None:
        try:
            await super()._instruct(own)
        except Exception as error:
            # A user's function may raise any error, for example without deps; show the rest all the
            # same.
            say(
                "the request is without the instructions by a function: "
                f"{one_line(str(error), 300)}"
            )

    def _refuse(self, agent: Agent, messages: list[Message]) -> Any:
        """Record the request for the model."""
        self.request = self.request or to_request(agent, messages)
        raise ModelError("nothing is sent", kind="bad_request", provider="")


def first_request(
    agent: Agent, inputs: JsonObject, functions: Mapping[str, Callable[..., Any]], deps: Any = None
) -> tuple[JsonObject, list[JsonObject]]:
    """Return the keyword arguments of a run's first model call, for the provider's SDK, and how
    each tool is executed.

    Raises the errors of a run that ends before its first call.
    """
    prepare = options_for(agent).prepare_tools
    options = RunOptions() if prepare in prepare_functions else RunOptions(prepare_tools=None)
    run = _FirstCall(agent, inputs, functions, options, deps)
    try:
        asyncio.run(run.run())
    except RunError:
        if run.request is None:
            raise
    return run.request or {}, _specs(agent, run.found)


def _specs(agent: Agent, found: ToolInventory) -> list[JsonObject]:
    known = {spec.name for spec in found.tools}
    fields = {"name", *ToolPolicy.model_fields, "needs_approval", "approval_check", "approvers"}
    specs = [spec.model_dump(include=fields) for spec in found.tools]
    for tool in agent.tools or []:
        if tool.name in known or not (tool.name in found.missing or tool.name in found.unasked):
            continue
        spec = with_policy(ToolSpec(name=tool.name), tool.perdure, is_function=False)
        said = {"name", "needs_approval", *(tool.perdure.model_fields_set if tool.perdure else ())}
        specs.append(
            spec.model_dump(include=fields & said if tool.name in found.unasked else fields)
        )
    return specs
