"""Starts runs, and gives handles on those that were started before."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any
from weakref import WeakSet

from temporalio.client import Client
from temporalio.common import SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode

from ..agent import Agent
from ..excerpt import excerpt, one_line
from ..messages import Message
from ..options import RunOptions
from ..payloads.converter import with_converter
from ..payloads.limits import require_sendable
from ..prompty.load import load
from ..prompty.portable import portable
from ..prompty.prepare import prepare
from ..protocol.names import WORKFLOW
from ..protocol.run import RunInput
from ..protocol.search_attributes import AGENT
from ..workflows.policies import WORKFLOW_TASK_TIMEOUT
from .handle import RunHandle

_without_attributes: WeakSet[Any] = WeakSet()
"""Connections to a namespace that perdure's search attributes are not registered with."""


async def start_run(
    client: Client,
    agent: Agent | str | PathLike[str],
    inputs: Mapping[str, Any] | None = None,
    *,
    task_queue: str = "perdure",
    id: str | None = None,
    options: RunOptions | None = None,
    messages: Sequence[Message | Mapping[str, Any]] | None = None,
) -> RunHandle:
    """Start a run and return without waiting for it.

    The prompt is rendered here (`prepare`) unless `messages` gives the conversation to start from, as for the
    next turn (§14). `id` becomes the workflow id; without one, `readable_id` makes one.

    Raises what `load` and `prepare` raise, `ConfigurationError` for a literal secret in the agent,
    `PayloadTooLargeError`, and `WorkflowAlreadyStartedError` when a run of that id is under way.
    """
    client = with_converter(client)
    loaded = agent if isinstance(agent, Agent) else load(agent, defer_environment=True)
    given = dict(inputs or {})
    input = RunInput(
        agent=portable(loaded),
        messages=prepare(loaded, given) if messages is None else [_message(message) for message in messages],
        inputs=_bound_inputs(loaded, given),
        options=options or RunOptions(),
    )
    await require_sendable(client, input, "The run's input", lambda: _start_from_less(input.messages))
    workflow_id = id or readable_id(loaded.name)
    await _start(client, input, workflow_id, task_queue)
    return RunHandle(client, workflow_id)


def get_run(client: Client, id: str) -> RunHandle:
    """A handle on the run of that id. Nothing is asked yet: the handle's first call shows whether the run exists."""
    return RunHandle(with_converter(client), id)


def _message(value: Message | Mapping[str, Any]) -> Message:
    return value if isinstance(value, Message) else Message.model_validate(value)


def _bound_inputs(agent: Agent, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs that a tool's binding refers to (§9.6); the rendered messages already have the others."""
    bound = {binding.input for tool in agent.tools or [] for binding in (tool.bindings or {}).values()}
    if not bound:
        return {}
    defaults = {declared.name: declared.default for declared in agent.inputs or [] if declared.default is not None}
    known = {**defaults, **inputs}
    return {name: known[name] for name in sorted(bound) if name in known}


def readable_id(name: str) -> str:
    """A new, random run id that begins with the agent's name."""
    readable = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "agent"
    return f"{readable}-{secrets.token_hex(4)}"


def _start_from_less(messages: Sequence[Message]) -> str:
    size = sum(len(message.model_dump_json()) for message in messages)
    return f"Start from less ({size} bytes of it, before compression, are the conversation)"


async def _start(client: Client, input: RunInput, workflow_id: str, task_queue: str) -> None:
    arguments = {"id": workflow_id, "task_queue": task_queue, **_described(input)}
    if client.service_client not in _without_attributes:
        attributes = TypedSearchAttributes([SearchAttributePair(AGENT, _name(input.agent))])
        try:
            await client.start_workflow(WORKFLOW, input, search_attributes=attributes, **arguments)
            return
        except RPCError as error:
            if error.status != RPCStatusCode.INVALID_ARGUMENT or AGENT.name not in error.message:
                raise
            _without_attributes.add(client.service_client)
    await client.start_workflow(WORKFLOW, input, **arguments)


def _described(input: RunInput) -> dict[str, Any]:
    """The workflow task's time-out, and what the Temporal UI shows of the run."""
    name = _name(input.agent)
    return {
        "task_timeout": WORKFLOW_TASK_TIMEOUT,
        "static_summary": f"{name}: {_first_words(input.messages)}",
        "static_details": _details(input),
        "memo": {"agent": name},
    }


def _name(agent: Agent) -> str:
    return agent.name or "agent"


def _first_words(messages: Sequence[Message]) -> str:
    text = next((message.text for message in reversed(messages) if message.role == "user"), "")
    return one_line(text, 120)


def _details(input: RunInput) -> str:
    """What the Temporal UI shows of the run, as Markdown."""
    model = input.agent.model
    lines = [excerpt(input.agent.description or "", 2000), ""]
    if model:
        lines.append(f"- model: `{model.id}` ({model.provider or 'openai'}, {model.api_type})")
    if tools := [tool.name for tool in input.agent.tools or []]:
        lines.append(f"- tools: {', '.join(tools)}")
    lines.append(f"- at most {input.options.max_iterations} iterations")
    return "\n".join(lines).strip()
