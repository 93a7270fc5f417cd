"""The kind `prompty`: what the model is offered of another agent, and how a run of that agent begins."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ...agent import RICH_KINDS, Agent, PromptyTool, Property, Tool
from ...child_agents import key_of
from ...errors import ConfigurationError, LoadError
from ...messages import Message
from ...payloads.limits import require_recordable
from ...prompty.prepare import first_messages
from ...schema import object_schema
from ...tool_calls import ChildRun, PreparedRun
from ..binding import bound_inputs
from ..kind import Asking, KindCall, Offering, ToolKind, ToolOfferError
from .files import AgentFiles


class PromptyKind(ToolKind):
    """Another agent as a tool. The call's activity renders its prompt; its run is a child of the run that calls it."""

    asks_others: ClassVar[bool] = True

    def problems(self, tool: Tool) -> Sequence[str]:
        assert isinstance(tool, PromptyTool)
        found: list[str] = []
        try:
            key_of(tool.path)
        except LoadError as error:
            found.append(f"path: {error}")
        if tool.perdure and tool.perdure.retries:
            found.append("perdure.retries: an agent is not run again; its model calls are (RunOptions.max_llm_retries)")
        return found

    async def offer(self, tool: Tool, asking: Asking) -> Sequence[Offering]:
        """One function, whose parameters are the agent's inputs unless the tool declares its own.

        The agent is the one that was recorded when the run was started; only a file that was absent there is read in
        the worker's folder for prompts. Raises `ToolOfferError`.
        """
        assert isinstance(tool, PromptyTool)
        try:
            files = await asyncio.to_thread(_find, tool, asking)
            child = files.found[key_of(tool.path)]
            parameters = object_schema(_parameters(tool, child))
        except (ConfigurationError, ValueError, OSError) as error:
            raise ToolOfferError(str(error)) from error
        own = {key: agent for key, agent in files.found.items() if key not in asking.agents}
        return [
            Offering(
                name=tool.name,
                description=tool.description or child.description,
                parameters=parameters,
                execution=ChildRun(path=key_of(tool.path), mode=tool.mode, agents=own),
                takes_context=True,
            )
        ]

    async def execute(self, call: KindCall) -> PreparedRun:
        """How the run of the agent begins. Raises what `prepare` raises, and `PayloadTooLargeError`."""
        assert isinstance(call.tool, PromptyTool)
        child = call.agent._others[key_of(call.tool.path)]
        return await asyncio.to_thread(_prepared, call.tool, child, call.arguments, call.context.conversation)


def _find(tool: PromptyTool, asking: Asking) -> AgentFiles:
    files = AgentFiles(asking.prompt_root, known=asking.agents)
    files.find(Agent(tools=[tool]))
    for path in files.absent.values():
        where = "and the worker has no folder for prompts (create_worker(prompt_root=…), perdure worker --prompt-root)"
        if asking.prompt_root is not None:
            where = f"nor under the worker's folder for prompts, {str(asking.prompt_root)!r}"
        raise LoadError(f"the agent's file {path!r} was not there when the run was started, {where}")
    return files


def _parameters(tool: PromptyTool, child: Agent) -> list[Property]:
    """What the model may say. Raises LoadError for an input that the agent needs and nobody can give."""
    bound = tool.bindings or {}
    if tool.parameters is not None:
        return [prop for prop in tool.parameters if prop.name not in bound]
    inputs = [prop for prop in child.inputs or [] if prop.name not in bound]
    for prop in inputs:
        if prop.kind in RICH_KINDS and prop.required and prop.default is None:
            raise LoadError(
                f"the agent {tool.path!r} requires the input {prop.name!r} of kind {prop.kind}, which no model can "
                f"write: bind it to an input (bindings: {{{prop.name}: {{input: …}}}})"
            )
    plain = [prop for prop in inputs if prop.kind not in RICH_KINDS]
    return [prop.model_copy(update={"required": prop.required and prop.default is None}) for prop in plain]


def _prepared(tool: PromptyTool, child: Agent, arguments: Mapping[str, Any], before: Sequence[Message]) -> PreparedRun:
    said, inputs = tool.perdure.message if tool.perdure else None, dict(arguments)
    messages: list[Message] = []
    if said is not None and all(prop.name != said for prop in child.inputs or []):
        messages = [Message.user(str(inputs.pop(said, "")))]
    messages = [*first_messages(child, inputs), *messages]
    at = len(messages) - (1 if messages and not messages[-1].instructs else 0)
    messages[at:at] = before
    run = PreparedRun(messages=messages, inputs=bound_inputs(child, inputs))
    require_recordable(run, f"What the agent {tool.path!r} is to begin with")
    return run
