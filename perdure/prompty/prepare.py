"""Prepares the messages that a run begins with, from an agent and its inputs (§12.2)."""

from __future__ import annotations

import copy
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..agents import Agent
from ..errors import ConfigurationError, InvokerError, RenderError
from ..json_types import JsonObject, JsonView
from ..messages import Message
from ..text import did_you_mean
from .jinja import parse_jinja, used_variables
from .parse import parse
from .render import render
from .rich_values import nonce_name, thread_messages, with_media_read

MAX_NAMED = 5
"""The most undeclared inputs that an error names."""


def validate_inputs(agent: Agent, inputs: JsonView) -> JsonObject:
    """Copy of the inputs with declared defaults filled in. Undeclared inputs pass through, types
    are not checked.

    Raises RenderError when a required input is missing and has no default.
    """
    complete = dict(inputs)
    for prop in agent.inputs or []:
        if prop.name in complete:
            continue
        if prop.default is not None:
            complete[prop.name] = copy.deepcopy(prop.default)
        elif prop.required:
            text = f"Missing required input: {prop.name}{_strange_inputs(agent, inputs)}"
            raise RenderError(text, missing_input=prop.name)
    return complete


def _strange_inputs(agent: Agent, inputs: JsonView) -> str:
    """Return the given inputs that the agent does not declare: one may be the missing one,
    misspelt.
    """
    declared = [prop.name for prop in agent.inputs or []]
    strange = [
        f"{name!r:.80}{did_you_mean(name, declared)}" for name in inputs if name not in declared
    ]
    return (
        f". The agent does not declare the given {', '.join(strange[:MAX_NAMED])}"
        if strange
        else ""
    )


def prepare(agent: Agent, inputs: JsonView) -> list[Message]:
    """Return the messages that the agent's instructions render to with these inputs.

    Images, files and recordings may be paths, bytes and open files, which are read. A thread that
    the template does not mention comes last. Raises RenderError, and InvokerError if the agent
    names a template format or a parser that does not exist.
    """
    return first_messages(agent, with_media_read(agent, validate_inputs(agent, inputs)))


def first_messages(agent: Agent, inputs: JsonView) -> list[Message]:
    """Return the same for inputs that a model may have written: without reading files. Raises like
    `prepare`.
    """
    complete = validate_inputs(agent, inputs)
    rendered = render(agent, complete)
    messages = parse(agent, rendered)
    for nonce, value in rendered.rich.items():
        if nonce not in rendered and not _mentions(agent, nonce_name(nonce)):
            messages += _thread(agent, nonce_name(nonce), value)
    return messages


def _mentions(agent: Agent, name: str) -> bool:
    return name in used_variables(parse_jinja(agent.instructions))


def _thread(agent: Agent, name: str, value: Any) -> list[Message]:
    is_thread = any(prop.name == name and prop.kind == "thread" for prop in agent.inputs or [])
    return (thread_messages(name, value) if is_thread else None) or []


_PLACES = {"array": [], "thread": [], "object": {}, "integer": 0, "float": 0.0, "boolean": False}
"""Placeholders for unknown inputs that a text can't replace."""


@dataclass(frozen=True)
class NewPrompt:
    """An agent's prompt, rendered as completely as the known inputs allow."""

    instructions: list[Message]
    """The messages of the roles system and developer."""
    messages: list[Message] | None
    """All messages; None if some need unknown inputs."""
    unknown: list[str]
    """The names of the unknown inputs."""


def new_prompt(agent: Agent, inputs: Mapping[str, Any]) -> NewPrompt:
    """Render the prompt of an agent for a conversation that another version of it began.

    Runs record only the inputs that tools are bound to. Raises ConfigurationError if the
    instructions need another one, and the errors of `prepare`.
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


def instructions_by_path(
    others: Mapping[str, Agent], inputs: Mapping[str, Any]
) -> dict[str, list[Message]]:
    """Return the instructions of the agents that may take over a run, by path. Raises as
    `new_prompt`.
    """
    return {path: new_prompt(other, inputs).instructions for path, other in others.items()}


def _shows(mark: Any, messages: Sequence[Message]) -> bool:
    return isinstance(mark, str) and any(mark in message.text for message in messages)


def _needs(agent: Agent, names: Sequence[str], why: str) -> str:
    return (
        f"the prompt of the agent {agent.name!r} needs the input {', '.join(names)}, which is not "
        f"known here ({why}): give it"
    )
