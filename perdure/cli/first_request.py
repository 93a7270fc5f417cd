"""Builds the request of a run's first model call, without calling any."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from ..agents import Agent, others_of
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
        self.request: JsonObject | None = None

    async def _offered_tools(self) -> dict[str, ToolSpec]:
        """Only tools that file, function and kind describe: other servers are not contacted."""
        effects = self.effects
        asking = Asking(effects.agent, effects.inputs, agents=others_of(effects.agent))
        found = await effects.toolbox.inventory(asking, may_ask=False)
        effects.agent = effects.agent.with_declarations(found.offered)
        return {spec.name: spec for spec in found.tools}

    async def _instruct(self, own: list[Message]) -> None:
        try:
            await super()._instruct(own)
        except Exception as error:
            # A user's function may raise any error, for example without deps; show the rest all the
            # same.
            say(
                "the request lacks the instructions of the agent's function: "
                f"{one_line(str(error), 300)}"
            )

    def _refuse(self, agent: Agent, messages: list[Message]) -> Any:
        """Record the request for the model."""
        self.request = self.request or to_request(agent, messages)
        raise ModelError("nothing is sent", kind="bad_request", provider="")


def first_request(
    agent: Agent, inputs: JsonObject, functions: Mapping[str, Callable[..., Any]], deps: Any = None
) -> JsonObject:
    """Return the keyword arguments of a run's first model call, for the provider's SDK.

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
    return run.request or {}
