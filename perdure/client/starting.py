"""Starts the workflow of a run, with its options, search attributes and texts for Temporal's UI."""

from __future__ import annotations

import re
import secrets
import sys
from base64 import b32encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from os import PathLike
from typing import Any, TypedDict, TypeVar
from weakref import WeakKeyDictionary

from temporalio.client import Client
from temporalio.common import (
    Priority,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.service import RPCError, RPCStatusCode

from ..agents import Agent
from ..errors import ConfigurationError
from ..messages import Message
from ..options import RunOptions
from ..payloads.failures import require_sendable
from ..protocol.descriptions import details_of, memo_of, shown_name, summary_of
from ..protocol.names import WORKFLOW
from ..protocol.run import RunInput
from ..protocol.search_attributes import AGENT, COST, DIRECT, ORIGIN, STATUS, TENANT, keyword
from ..protocol.signatures import Voucher
from ..providers.registry import require_media, require_model
from ..redaction import Redactor, redactor
from ..settings.agent_file import with_cadence
from ..trace_ids import traceparent
from ..workflows.policies import WORKFLOW_TASK_TIMEOUT
from .output_type import with_output_type
from .run_input import new_run

MAX_TENANT_BYTES = 64
"""Temporal's limit for the key by which it shares workers fairly."""

MIN_WEIGHT, MAX_WEIGHT = 0.001, 1000.0
"""Temporal's limits of a key's weight."""


class StartOptions(TypedDict, total=False):
    """Keyword arguments of `start_run`; None is the same as an absent one."""

    tenant: str | None
    """The tenant of the run: workers serve tenants in turn, and lists are filtered by it."""
    tenant_weight: float | None
    """The tenant's share of the workers, against 1 of every other one; 0.001 to 1000. Only with a
    `tenant`."""
    priority: int | None
    """1 is served first, 5 last; 3 without one. The run's model and tool calls inherit it."""
    search_attributes: TypedSearchAttributes | None
    """Further search attributes, registered in the namespace."""
    memo: Mapping[str, Any] | None
    """Values shown with the run, without secrets; `agent` and names with `perdure…` are
    perdure's own."""
    execution_timeout: timedelta | float | None
    """The seconds after which Temporal ends the run; after `RunOptions.max_seconds`, the run ends
    itself and keeps its conversation."""
    id_reuse_policy: WorkflowIDReusePolicy | None
    """The policy for the id of a run that has ended; by default it may be used again."""
    id_conflict_policy: WorkflowIDConflictPolicy | None
    """The policy for the id of an open run; by default the start fails."""
    deps: Any
    """The run's `ToolContext.deps`: JSON, a pydantic model or a dataclass. They are recorded."""
    handoffs: dict[str, list[Message]] | None
    """The instructions of agents to hand over to, by path, as another run recorded them; for
    forks."""
    voucher: Voucher | None
    """Signs the request, for the person it names."""
    origin: str | None
    """The source of the run: a forked run or a schedule. For perdure's own use."""


def start_arguments(options: StartOptions) -> dict[str, Any]:
    """Return the arguments of `Client.start_workflow`, without memo and search attributes. Raises
    `ValueError`.
    """
    timeout = options.get("execution_timeout")
    arguments = {
        "priority": _priority(
            options.get("priority"), options.get("tenant"), options.get("tenant_weight")
        ),
        "execution_timeout": timedelta(seconds=timeout)
        if isinstance(timeout, int | float)
        else timeout,
        "id_reuse_policy": options.get("id_reuse_policy"),
        "id_conflict_policy": options.get("id_conflict_policy"),
    }
    return {name: value for name, value in arguments.items() if value is not None}


def require_no_secret(known: Redactor, options: StartOptions, **names: str) -> None:
    """Raises `ConfigurationError` for a secret in a searchable field, which can't be redacted."""
    tenant, attributes = options.get("tenant"), options.get("search_attributes") or ()
    given: dict[str, Any] = {**names, "tenant": tenant}
    given |= {f"search_attributes[{pair.key.name!r}]": pair.value for pair in attributes}
    for name, value in given.items():
        if (clean := known.value(value)) is not value:
            raise ConfigurationError(
                f"{name} contains a secret, which every run would record: {clean!r} with its "
                "value; give a name that people may read"
            )


def _priority(priority: int | None, tenant: str | None, weight: float | None) -> Priority | None:
    if priority is not None and priority not in range(1, 6):
        raise ValueError(
            f"priority={priority!r}: expected a number from 1, served first, to 5, served last"
        )
    if tenant is not None and not 0 < len(tenant.encode()) <= MAX_TENANT_BYTES:
        raise ValueError(f"tenant={tenant!r}: expected a name of 1 to {MAX_TENANT_BYTES} bytes")
    if weight is not None and not (tenant is not None and MIN_WEIGHT <= weight <= MAX_WEIGHT):
        raise ValueError(
            f"tenant_weight={weight!r}: expected {MIN_WEIGHT:g} to {MAX_WEIGHT:g}, with a tenant"
        )
    if priority is None and tenant is None:
        return None
    return Priority(priority_key=priority, fairness_key=tenant, fairness_weight=weight)


def current_traceparent() -> str:
    """Return the current OpenTelemetry span as a W3C `traceparent`; "" when there is none.

    This does not import OpenTelemetry: without it there is no span.
    """
    if "opentelemetry.trace" not in sys.modules:
        return ""
    from opentelemetry.trace import get_current_span

    context = get_current_span().get_span_context()
    return traceparent(context.trace_id, context.span_id) if context.is_valid else ""


Result = TypeVar("Result")

_unregistered: WeakKeyDictionary[Any, frozenset[str]] = WeakKeyDictionary()
"""By connection: perdure's search attributes that its namespace lacks."""


@dataclass(frozen=True)
class Started:
    """A run that was started."""

    id: str
    origin: str | None
    """The run id of its first link, if the server sends it."""


@dataclass(frozen=True)
class StartRequest:
    """The request for a run: now, or by a schedule."""

    input: RunInput
    arguments: dict[str, Any]
    """Arguments of `Client.start_workflow` beside the input and the search attributes; the memo is
    among them."""
    start: StartOptions


async def start_workflow(
    client: Client,
    agent: Agent | str | PathLike[str],
    inputs: Mapping[str, Any] | str | None,
    start: StartOptions,
    *,
    task_queue: str,
    id: str | None = None,
    options: RunOptions | Mapping[str, Any] | None = None,
    messages: Sequence[Message | Mapping[str, Any]] | None = None,
    output_type: Any = None,
) -> Started:
    """Start a run with a client that has perdure's converter. Raises as `start_run` does."""
    input = new_run(agent, inputs, options, messages, start.get("deps"), start.get("handoffs"))
    input.traceparent = current_traceparent()
    request = await start_request(
        client, input, start, task_queue=task_queue, id=id, output_type=output_type
    )

    async def send(input: RunInput, attributes: TypedSearchAttributes) -> str | None:
        run = await client.start_workflow(
            WORKFLOW, input, search_attributes=attributes, **request.arguments
        )
        return run.first_execution_run_id

    return Started(request.arguments["id"], await send_request(client, request, send))


async def start_request(
    client: Client,
    input: RunInput,
    start: StartOptions,
    *,
    task_queue: str,
    id: str | None = None,
    output_type: Any = None,
) -> StartRequest:
    """Return the request for a run with this input, after the checks that need no server.

    Raises the errors of `start_run` that are not the server's.
    """
    known = redactor(input.agent)
    require_no_secret(known, start, id=id or "", task_queue=task_queue)
    require_model(input.agent)
    require_media(input.agent, input.messages)
    input.options = with_cadence(input.options, client.service_client.config.target_host)
    if output_type is not None:
        input.agent = with_output_type(input.agent, output_type)
    await require_sendable(
        client, input, "The run's input", lambda: _start_from_less(input.messages)
    )
    workflow_id = id or readable_id(input.agent.name)
    if voucher := start.get("voucher"):
        input.requested_by = voucher.request(workflow_id, input.content)
    arguments = {
        "id": workflow_id,
        "task_queue": task_queue,
        **_ui_arguments(input),
        **start_arguments(start),
    }
    arguments["memo"] = {**known.encoded(start.get("memo") or {}), **arguments["memo"]}
    return StartRequest(input, arguments, start)


def readable_id(name: str) -> str:
    """Return a new run id: the agent's name and 128 random bits."""
    readable = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "agent"
    return f"{readable}-{b32encode(secrets.token_bytes(16)).decode().rstrip('=').lower()}"


def _start_from_less(messages: Sequence[Message]) -> str:
    size = sum(len(message.model_dump_json()) for message in messages)
    return f"Start from less ({size} bytes of it, before compression, are the conversation)"


Send = Callable[[RunInput, TypedSearchAttributes], Awaitable[Result]]


async def send_request(client: Client, request: StartRequest, send: Send[Result]) -> Result:
    """Call `send` with the input and the search attributes that the namespace knows; return its
    result.

    Raises the errors of `send`, except for an attribute of perdure's that the namespace lacks.
    """
    start = request.start

    async def send_input(names: list[str], attributes: TypedSearchAttributes) -> Result:
        return await send(request.input.model_copy(update={"search_attributes": names}), attributes)

    return await send_with_attributes(
        client, own_attributes(request.input.agent, start), start, send_input
    )


async def send_with_attributes(
    client: Client,
    own: Mapping[str, SearchAttributePair[Any]],
    start: StartOptions,
    send: Callable[[list[str], TypedSearchAttributes], Awaitable[Result]],
) -> Result:
    """Call `send` with the names of perdure's attributes that the namespace knows, and with all
    attributes.

    Returns its result, and raises like `send_request`.
    """
    given = {pair.key.name: pair for pair in start.get("search_attributes") or ()}
    while True:
        unregistered = _unregistered.get(client.service_client, frozenset())
        known = {name: pair for name, pair in own.items() if name not in unregistered}
        try:
            return await send(
                sorted(known), TypedSearchAttributes(list({**known, **given}.values()))
            )
        except RPCError as error:
            unknown = {name for name in known if name not in given and name in error.message}
            if error.status != RPCStatusCode.INVALID_ARGUMENT or not unknown:
                raise
            _unregistered[client.service_client] = unregistered | unknown


def own_attributes(agent: Agent, start: StartOptions) -> dict[str, SearchAttributePair[Any]]:
    """Perdure's search attributes of a run that starts, by name."""
    pairs: list[SearchAttributePair[Any]] = [
        SearchAttributePair(AGENT, keyword(shown_name(agent))),
        SearchAttributePair(STATUS, "running"),
        SearchAttributePair(ORIGIN, keyword(start.get("origin") or DIRECT)),
        SearchAttributePair(COST, 0.0),
    ]
    if tenant := start.get("tenant"):
        pairs.append(SearchAttributePair(TENANT, tenant))
    return {pair.key.name: pair for pair in pairs}


def _ui_arguments(input: RunInput) -> dict[str, Any]:
    """Arguments of `Client.start_workflow`: the workflow task's time-out, and the texts that the
    Temporal UI shows.
    """
    return {
        "task_timeout": WORKFLOW_TASK_TIMEOUT,
        "static_summary": summary_of(input),
        "static_details": details_of(input),
        "memo": memo_of(input),
    }
