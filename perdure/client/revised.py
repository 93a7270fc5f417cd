"""The agent of an earlier run with another model, or as its file is now, and the conversation that fits it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

from ..agent import Agent, Model, OfferedFunction
from ..errors import ConfigurationError, InvokerError, RenderError
from ..messages import Message
from ..model_names import split_model
from ..peers import as_started
from ..prompty.load import load
from ..prompty.prepare import prepare
from ..protocol.inventory import Inventory

_PLACES = {"array": [], "thread": [], "object": {}, "integer": 0, "float": 0.0, "boolean": False}
"""Stand for inputs that are not known, where a text can't."""


def with_model(agent: Agent, name: str) -> Agent:
    """A copy that uses another model: of the same provider by its id, of another one as `PROVIDER/ID`.

    Another provider's connection is the one that its environment variables give. A name with a `/` whose beginning is
    no provider is an id. Raises ConfigurationError for a name without an id.
    """
    model = agent.model or Model()
    provider, id = split_model(name)
    if not id.strip():
        raise ConfigurationError(f"model {name!r}: expected an id such as gpt-4o, or PROVIDER/ID")
    if provider is None:
        return agent.model_copy(update={"model": model.model_copy(update={"id": name})})
    change: dict[str, Any] = {"id": id}
    if provider != model.provider_key:
        change |= {"provider": provider, "connection": None, "api_type": "chat"}
    return agent.model_copy(update={"model": model.model_copy(update=change)})


def loaded(agent: Agent | str | PathLike[str]) -> Agent:
    """The agent, with the agents that it may delegate to as tools. Raises what `load` raises."""
    return as_started(agent if isinstance(agent, Agent) else load(agent, defer_environment=True), os.environ)


def functions_of(agent: Agent, offered: Sequence[Any]) -> set[str]:
    """The names of what the model may call; `offered` is what the run's inventory says of tools that offer several."""
    several = {tool.name: tool.of for tool in offered if isinstance(tool, OfferedFunction)}
    sources = set(several.values())
    declared = {tool.name for tool in agent.tools or []}
    return (declared - sources) | {name for name, source in several.items() if source in declared}


def require_tools(before: Agent, after: Agent, inventory: Inventory | None, messages: Sequence[Message]) -> None:
    """Raises ConfigurationError when the conversation has calls of tools that the agent had and has no more."""
    offered = inventory.offered if inventory else []
    called = {call.name for message in messages for call in message.tool_calls}
    missing = sorted((called & functions_of(before, offered)) - functions_of(after, offered))
    if missing:
        raise ConfigurationError(
            f"the agent {after.name!r} has no tool {', '.join(missing)}, which the conversation has called: "
            "declare it, or fork before its first call"
        )


@dataclass(frozen=True)
class NewPrompt:
    """An agent's prompt, as far as it can be rendered with the inputs that are known."""

    instructions: list[Message]
    """The messages of the roles system and developer."""
    messages: list[Message] | None
    """All of them; None when some need inputs that are not known."""
    unknown: list[str]
    """The names of those inputs."""


def new_prompt(agent: Agent, inputs: Mapping[str, Any]) -> NewPrompt:
    """Render the prompt of an agent for a conversation that another version of it has begun.

    Runs record only the inputs that tools are bound to. Raises ConfigurationError when the instructions need another
    one, and what `prepare` raises.
    """
    marks = {
        each.name: _PLACES.get(each.kind, f"\u27e8{each.name} {secrets.token_hex(8)}\u27e9")
        for each in agent.inputs or []
        if each.name not in inputs and each.default is None
    }
    try:
        messages = prepare(agent, {**marks, **inputs})
    except (RenderError, InvokerError) as error:
        if not marks:
            raise
        raise ConfigurationError(_needs(agent, sorted(marks), str(error))) from error
    instructions = [message for message in messages if message.instructs]
    in_instructions = [name for name, mark in marks.items() if _shows(mark, instructions)]
    if in_instructions:
        raise ConfigurationError(_needs(agent, in_instructions, "its instructions use it"))
    unknown = sorted(name for name in marks if name in agent.instructions)
    return NewPrompt(instructions, None if unknown else messages, unknown)


def with_instructions(messages: Sequence[Message], seed: Sequence[Message], new: Sequence[Message]) -> list[Message]:
    """The conversation with new instructions in the place of those that it began with (`seed`)."""
    old = [message for message in seed if message.instructs]
    if old == list(new):
        return list(messages)
    return [*new, *(message for message in messages if message not in old)]


def _shows(mark: Any, messages: Sequence[Message]) -> bool:
    return isinstance(mark, str) and any(mark in message.text for message in messages)


def _needs(agent: Agent, names: Sequence[str], why: str) -> str:
    return (
        f"the prompt of the agent {agent.name!r} needs the input {', '.join(names)}, which the run has not recorded "
        f"({why}): give it anew"
    )
