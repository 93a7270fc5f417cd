"""What the runs of a session are started with, made from an agent as the input of a run is."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from os import PathLike
from typing import Any

from ...agent import Agent
from ...errors import RenderError
from ...messages import Message
from ...options import RunOptions
from ...prompty.given_media import with_media_read
from ...prompty.load import load
from ...prompty.prepare import prepare
from ...protocol.session import SessionSetup
from ...providers.availability import require_model
from ...valid_text import valid_json
from ..run_input import new_run


def loaded_agent(agent: Agent | str | PathLike[str]) -> Agent:
    """The agent, as its file is now. Raises what `load` raises."""
    return agent if isinstance(agent, Agent) else load(agent, defer_environment=True)


def setup_of(
    agent: Agent, inputs: Mapping[str, Any] | None, options: RunOptions | Mapping[str, Any] | None
) -> SessionSetup:
    """What the runs of a session with this agent are started with.

    Raises what `start_run` raises before it asks the server, and RenderError for an input that is missing.
    """
    given = {name: valid_json(value) for name, value in with_media_read(agent, inputs or {}).items()}
    run = new_run(agent, given, options, instructions(agent, given))
    require_model(run.agent)
    return SessionSetup(
        agent=run.agent,
        agents=run.agents,
        messages=run.messages,
        inputs=run.inputs,
        options=run.options,
        features=run.features,
    )


def instructions(agent: Agent, given: Mapping[str, Any]) -> list[Message]:
    """What the agent's prompt says before anybody has said anything.

    A last user's message that is nothing but an input without a value, such as `{{question}}`, stands for what is
    said, and is left out; a thread without a value is empty. Raises RenderError for an input that is missing.
    """
    threads: dict[str, Any] = {
        each.name: [] for each in agent.inputs or () if each.kind == "thread" and each.name not in given
    }
    complete = {**threads, **given}
    for each in agent.inputs or ():
        is_open = each.kind == "string" and each.name not in given
        if is_open and (before := _before(agent, complete, each.name)) is not None:
            return before
    try:
        return prepare(agent, complete)
    except RenderError as error:
        if not str(error).startswith("Missing"):
            raise
        raise RenderError(f"{error}. {_ADVICE}") from error


_ADVICE = (
    "Give session(…, inputs={…}) what stays the same in every turn. What is said comes after the prompt's messages: "
    "where one of them is to stand for it, let the prompt end with a user's message that is that input alone"
)


def _before(agent: Agent, given: Mapping[str, Any], name: str) -> list[Message] | None:
    """What comes before the last message, if that is a user's and nothing but this input, which is nowhere else."""
    said = f"said-{secrets.token_hex(16)}"
    try:
        *before, last = prepare(agent, {**given, name: said})
    except (RenderError, ValueError):
        # Another input is missing too, or the prompt has no messages: whoever renders it without this one says so.
        return None
    is_alone = last.role == "user" and last.text.strip() == said and len(last.parts) == 1
    return before if is_alone and not any(said in message.text for message in before) else None
