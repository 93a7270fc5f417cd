"""Starts runs, and gives handles on those that were started before."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Unpack
from weakref import WeakKeyDictionary

from temporalio.client import Client
from temporalio.common import SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode
from typing_extensions import TypeVar

from ..agent import Agent
from ..messages import Message
from ..options import RunOptions
from ..payloads.converter import with_converter
from ..payloads.limits import require_sendable
from ..protocol.names import WORKFLOW
from ..protocol.run import RunInput
from ..protocol.search_attributes import AGENT, STATUS, TENANT
from ..protocol.shown import details_of, shown_name, summary_of
from ..providers.availability import require_model
from ..redaction import redactor
from ..workflows.policies import WORKFLOW_TASK_TIMEOUT
from .caller_span import current_traceparent
from .handle import RunHandle
from .output_type import with_output_type
from .run_input import new_run
from .start_options import StartOptions, require_no_secret, start_arguments

T = TypeVar("T", default=Any)

_unregistered: WeakKeyDictionary[Any, frozenset[str]] = WeakKeyDictionary()
"""For a connection, those of perdure's search attributes that are not registered with its namespace."""


async def start_run(
    client: Client,
    agent: Agent | str | PathLike[str],
    inputs: Mapping[str, Any] | None = None,
    *,
    task_queue: str = "perdure",
    id: str | None = None,
    options: RunOptions | None = None,
    messages: Sequence[Message | Mapping[str, Any]] | None = None,
    output_type: type[T] | None = None,
    **start: Unpack[StartOptions],
) -> RunHandle[T]:
    """Start a run and return without waiting for it.

    The prompt is rendered here (`prepare`) unless `messages` gives the conversation to start from, as for the
    next turn (§14). `id` becomes the workflow id; without one, `readable_id` makes one. The output is read as
    `output_type`: a pydantic model, a dataclass, a TypedDict, or str; it stands in for `outputs` where the agent has
    none. `start` are the fields of `StartOptions`.

    Raises what `load` and `prepare` raise, `InvokerError` for a provider that is not installed here, `LoadError` for
    an API that no agent can use, `ConfigurationError` for a literal secret in the agent, a secret in what the run
    is found by (id, task queue, tenant, search attributes) and an `output_type` that can't be asked of a model or is
    not that of the agent's `outputs`, `ValueError` for a priority or tenant that can't be, `PayloadTooLargeError`, and
    `WorkflowAlreadyStartedError` when a run of that id is under way.
    """
    client = with_converter(client)
    input = new_run(agent, inputs, options, messages)
    input.traceparent = current_traceparent()
    known = redactor(input.agent)
    require_no_secret(known, start, id=id or "", task_queue=task_queue)
    require_model(input.agent)
    if output_type is not None:
        input.agent = with_output_type(input.agent, output_type)
    await require_sendable(client, input, "The run's input", lambda: _start_from_less(input.messages))
    workflow_id = id or readable_id(input.agent.name)
    arguments = {"id": workflow_id, "task_queue": task_queue, **_described(input), **start_arguments(start)}
    arguments["memo"] = {**known.encoded(start.get("memo") or {}), **arguments["memo"]}
    origin = await _start(client, input, start, arguments)
    return RunHandle(client, workflow_id, origin=origin, output_type=output_type)


def get_run(client: Client, id: str, *, output_type: type[T] | None = None) -> RunHandle[T]:
    """A handle on the run of that id; its output is read as `output_type`.

    Nothing is asked yet: the handle's first call shows whether the run exists.
    """
    return RunHandle(with_converter(client), id, output_type=output_type)


def readable_id(name: str) -> str:
    """A new, random run id that begins with the agent's name."""
    readable = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "agent"
    return f"{readable}-{secrets.token_hex(4)}"


def _start_from_less(messages: Sequence[Message]) -> str:
    size = sum(len(message.model_dump_json()) for message in messages)
    return f"Start from less ({size} bytes of it, before compression, are the conversation)"


async def _start(client: Client, input: RunInput, start: StartOptions, arguments: dict[str, Any]) -> str | None:
    """Start the workflow, with those of perdure's search attributes that the namespace knows.

    Returns the run id of its first link, if the server says it.
    """
    given = {pair.key.name: pair for pair in start.get("search_attributes") or ()}
    while True:
        unregistered = _unregistered.get(client.service_client, frozenset())
        own = {name: pair for name, pair in _own_attributes(input, start).items() if name not in unregistered}
        told = input.model_copy(update={"search_attributes": sorted(own)})
        attributes = TypedSearchAttributes(list({**own, **given}.values()))
        try:
            run = await client.start_workflow(WORKFLOW, told, search_attributes=attributes, **arguments)
            return run.first_execution_run_id
        except RPCError as error:
            unknown = {name for name in own if name not in given and name in error.message}
            if error.status != RPCStatusCode.INVALID_ARGUMENT or not unknown:
                raise
            _unregistered[client.service_client] = unregistered | unknown


def _own_attributes(input: RunInput, start: StartOptions) -> dict[str, SearchAttributePair[Any]]:
    pairs = [SearchAttributePair(AGENT, shown_name(input.agent)), SearchAttributePair(STATUS, "running")]
    if tenant := start.get("tenant"):
        pairs.append(SearchAttributePair(TENANT, tenant))
    return {pair.key.name: pair for pair in pairs}


def _described(input: RunInput) -> dict[str, Any]:
    """The workflow task's time-out, and what the Temporal UI shows of the run."""
    return {
        "task_timeout": WORKFLOW_TASK_TIMEOUT,
        "static_summary": summary_of(input),
        "static_details": details_of(input),
        "memo": {"agent": shown_name(input.agent)},
    }
