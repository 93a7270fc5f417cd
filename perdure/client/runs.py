"""Starts runs, and returns handles on earlier ones."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from os import PathLike
from typing import Any, Unpack

from temporalio.client import Client
from typing_extensions import TypeVar

from ..agents import Agent, loaded_from, types_by_path
from ..json_types import JsonView
from ..messages import Message
from ..model_choice import AS_WRITTEN, model_choice
from ..options import RunOptions
from ..payloads.converter import with_converter
from ..protocol.signatures import Voucher
from ..text import require_known
from .handle import RunHandle
from .output_type import OutputType
from .run_input import loaded_agent
from .starting import StartOptions, start_workflow

T = TypeVar("T", default=Any)


async def start_run(
    client: Client,
    agent: Agent | str | PathLike[str],
    inputs: JsonView | str | None = None,
    *,
    task_queue: str = "perdure",
    id: str | None = None,
    options: RunOptions | JsonView | None = None,
    messages: Sequence[Message | JsonView] | None = None,
    output_type: OutputType[T] | None = None,
    model: str | None = None,
    provider: str | None = None,
    endpoint: str | None = None,
    **start: Unpack[StartOptions],
) -> RunHandle[T]:
    """Start a run and return without waiting for it.

    The prompt is rendered here (`prepare`) unless `messages` gives the conversation to start from,
    as for the next turn (§14). `id` becomes the workflow id; without one, `readable_id` makes one.
    `output_type` is the type of the output: a pydantic model, a dataclass, a TypedDict, or str; it
    replaces `outputs` if the agent has none. `model` (an id, or `PROVIDER/ID`), `provider` and
    `endpoint` override the agent's file. `start` are the fields of `StartOptions`.

    Raises TypeError for an unknown argument, the errors of `load` and `prepare`, `InvokerError`
    for a provider that is not installed here, `LoadError` for an API that no agent can use,
    `ConfigurationError` for a literal secret in the agent, a secret in a
    searchable field (id, task queue, tenant, search attributes) and an `output_type` that models
    can't be asked for or that contradicts the agent's `outputs`, `ValueError` for an invalid
    priority or tenant, `PayloadTooLargeError`, and `WorkflowAlreadyStartedError` when a run of that
    id is open.
    """
    require_known(
        "start_run",
        start,
        [*inspect.signature(start_run).parameters, *StartOptions.__annotations__],
    )
    client = with_converter(client)
    is_chosen = (model, provider, endpoint) != AS_WRITTEN
    agent = loaded_agent(
        agent, model_choice(model, provider, endpoint) if is_chosen else AS_WRITTEN
    )
    if output_type is None:
        output_type = loaded_from(agent).output_type
    started = await start_workflow(
        client,
        agent,
        inputs,
        start,
        task_queue=task_queue,
        id=id,
        options=options,
        messages=messages,
        output_type=output_type,
    )
    more: dict[str, Any] = {
        "voucher": start.get("voucher"),
        "later_types": types_by_path(agent, output_type),
    }
    return RunHandle(client, started.id, origin=started.origin, output_type=output_type, **more)


def get_run(
    client: Client,
    id: str,
    *,
    output_type: OutputType[T] | None = None,
    voucher: Voucher | None = None,
) -> RunHandle[T]:
    """Return a handle on the run of that id; its output has the type `output_type`.

    A `voucher` signs the decisions and steering messages of this handle, for the person it names.
    The handle's first call shows whether the run exists; this function does not contact the server.
    """
    return RunHandle(with_converter(client), id, output_type=output_type, voucher=voucher)
