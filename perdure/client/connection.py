"""Connects to a Temporal server: search attributes, the pollers of a task queue, and the server's
clock.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import ip_address
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio import runtime
from temporalio.api.enums.v1 import (
    IndexedValueType,
    PendingActivityState,
    PendingWorkflowTaskState,
    TaskQueueKind,
)
from temporalio.api.operatorservice.v1 import (
    AddSearchAttributesRequest,
    ListSearchAttributesRequest,
)
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import PollWorkflowTaskQueueRequest
from temporalio.client import Client, WorkflowExecutionDescription
from temporalio.envconfig import ClientConfig
from temporalio.service import GrpcCompression, RPCError, RPCStatusCode

from ..activities.pollers import pollers
from ..errors import ConfigurationError
from ..json_types import JsonObject, JsonView
from ..payloads.converter import converter_from_environment
from ..protocol import search_attributes
from ..protocol.names import PERMIT
from .connection_errors import connection_error
from .embedded.state import use_running

DEFAULT_ADDRESS = "localhost:7233"
CONNECT_SECONDS = 5.0
"""A server that does not answer within these seconds counts as unreachable."""


async def connect(
    address: str | None = None, *, namespace: str | None = None, **options: Any
) -> Client:
    """Connect to Temporal. Raises `ConfigurationError` within a few seconds when that fails.

    Settings that the arguments leave open come from `TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`,
    `TEMPORAL_API_KEY`, `TEMPORAL_TLS…` and the profile of `temporal.toml`. If those name no server,
    perdure connects to the embedded one if it runs for the data folder (`PERDURE_HOME`), else to
    `localhost:7233`; the namespace defaults to `default`.

    `PERDURE_STORAGE` is the storage for values too large for Temporal (see
    `perdure.payloads.storage`). `options` are passed to `temporalio.client.Client.connect`;
    messages to a server on this machine are not compressed unless `grpc_compression` sets it.
    """
    given = {"target_host": address, "namespace": namespace}
    settings = {
        **_environment(),
        **{name: value for name, value in given.items() if value},
        **options,
    }
    if "target_host" not in settings:
        settings["target_host"] = use_running() or DEFAULT_ADDRESS
    return await _open(**settings)


async def connect_locally(address: str) -> Client:
    """Connect to the embedded server at `address` and ignore the environment. Raises like
    `connect`.
    """
    return await _open(target_host=address)


def environment_names_a_server() -> bool:
    """Return whether `TEMPORAL_ADDRESS` or `temporal.toml` gives an address. Raises
    `ConfigurationError` on a broken file.
    """
    return "target_host" in _environment()


async def _open(*, target_host: str, **settings: Any) -> Client:
    if "data_converter" not in settings:
        settings["data_converter"] = converter_from_environment()
    if "grpc_compression" not in settings and is_on_this_machine(target_host):
        settings["grpc_compression"] = GrpcCompression.NONE
    _log_as_others_do()
    try:
        return await asyncio.wait_for(Client.connect(target_host, **settings), CONNECT_SECONDS)
    except TimeoutError as error:
        raise _refused(target_host, settings, f"no answer within {CONNECT_SECONDS:g} s") from error
    except (RuntimeError, ValueError) as error:
        raise _refused(target_host, settings, str(error)) from error


def _log_as_others_do() -> None:
    """Route the log of Temporal's core through Python's logging unless the program configured it:
    it colours any stdout.
    """
    known = getattr(runtime, "_runtime_ref", None)
    if getattr(known, "_default_runtime", known) is not None:
        return  # The runtime exists already, or a later SDK keeps it elsewhere.
    forwarding = runtime.LogForwardingConfig(
        logging.getLogger("temporalio.core"), append_target_to_name=False
    )
    logged = runtime.LoggingConfig(
        runtime.TelemetryFilter(core_level="WARN", other_level="ERROR"), forwarding
    )
    telemetry = runtime.TelemetryConfig(logging=logged)
    with suppress(RuntimeError):  # The program may have forbidden a default runtime.
        runtime.Runtime.set_default(runtime.Runtime(telemetry=telemetry))


def _refused(target: str, settings: JsonView, reason: str) -> ConfigurationError:
    named = _environment().get("target_host") == target
    return connection_error(
        target, reason, has_tls=bool(settings.get("tls")), is_from_environment=named
    )


def is_on_this_machine(target_host: str) -> bool:
    """Return whether `host:port` is a loopback address."""
    host = target_host.rpartition(":")[0].strip("[]")
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _environment() -> JsonObject:
    try:
        return dict(ClientConfig.load_client_connect_config())
    except (RuntimeError, ValueError, OSError) as error:
        raise ConfigurationError(
            f"Temporal's environment configuration can't be read: {error}. Expected a "
            "temporal.toml (its path may be in TEMPORAL_CONFIG_FILE) with the profile that "
            "TEMPORAL_PROFILE names; correct it or unset those variables."
        ) from error


_REFUSALS = (
    RPCStatusCode.PERMISSION_DENIED,
    RPCStatusCode.UNIMPLEMENTED,
    RPCStatusCode.UNAUTHENTICATED,
)


@dataclass
class Registration:
    """The state of perdure's search attributes in a namespace."""

    existing: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    mismatched: dict[str, str] = field(default_factory=dict)
    """Name → the type registered there; the server gives a name only one type."""


async def registration_of(client: Client) -> Registration:
    """Return the state of the search attributes; the missing ones are in `added`. Raises
    `RPCError`.

    The server accepts a known name with another type and ignores that type, so this function reads
    the registered ones.
    """
    listed = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace), retry=True
    )
    found = Registration()
    for key in search_attributes.ALL:
        type = listed.custom_attributes.get(key.name)
        if type is None:
            found.added.append(key.name)
        elif int(type) == int(key.indexed_value_type):
            found.existing.append(key.name)
        else:
            found.mismatched[key.name] = type_name(type)
    return found


async def set_up_namespace(client: Client) -> Registration:
    """Add the missing search attributes and return the earlier state; a second call changes
    nothing.

    Raises `ConfigurationError` where only an administrator may read and add them, and `RPCError`
    when the server refuses for another reason.
    """
    try:
        found = await registration_of(client)
        missing = {
            key.name: IndexedValueType.ValueType(key.indexed_value_type)
            for key in search_attributes.ALL
            if key.name in found.added
        }
        if missing:
            request = AddSearchAttributesRequest(
                namespace=client.namespace, search_attributes=missing
            )
            await client.operator_service.add_search_attributes(request, retry=True)
    except RPCError as error:
        if error.status not in _REFUSALS:
            raise
        raise ConfigurationError(
            f"search attributes can't be registered in the namespace {client.namespace!r}: "
            f"{error.message} ({error.status.name}). Expected the rights of an administrator; one "
            f"can type: {command(client)}"
        ) from error
    return found


async def register_search_attributes(client: Client) -> bool:
    """Add the missing search attributes; return False where only an administrator may, as in
    Temporal Cloud. Raises `RPCError` when the server can't be reached.
    """
    try:
        await set_up_namespace(client)
    except ConfigurationError:
        return False
    return True


def type_name(value_type: int) -> str:
    """Return a search attribute's type as Temporal's command line spells it: `Keyword`, `Double`,
    `KeywordList`.
    """
    try:
        name = IndexedValueType.Name(IndexedValueType.ValueType(value_type))
    except ValueError:
        return f"type {value_type}"
    return name.removeprefix("INDEXED_VALUE_TYPE_").title().replace("_", "")


def command(client: Client) -> str:
    """Return the command with which an administrator registers all of them."""
    words = [
        f"--name {key.name} --type {type_name(int(key.indexed_value_type))}"
        for key in search_attributes.ALL
    ]
    return (
        f"temporal operator search-attribute create --namespace {client.namespace} "
        f"{' '.join(words)}"
    )


PATIENCE_SECONDS = 3.0
"""A task that waits longer than this has no worker."""
OWN_PREFIX = "perdure."
"""The prefix of the activity types that a run's own workers execute."""


def has_waited(run: WorkflowExecutionDescription) -> bool:
    """Return whether a task of the run has waited for a worker for `PATIENCE_SECONDS`.

    Activities of other workers that a tool calls do not count, and permits do not either: those
    come at their rate.
    """
    return decision_has_waited(run) or any(
        map(_execution_has_waited, run.raw_description.pending_activities)
    )


def decision_has_waited(run: WorkflowExecutionDescription) -> bool:
    """Return whether the workflow itself waits for a worker."""
    task = run.raw_description.pending_workflow_task
    is_on_queue = task.state == PendingWorkflowTaskState.PENDING_WORKFLOW_TASK_STATE_SCHEDULED
    return is_on_queue and _is_long_ago(task.scheduled_time)


def _execution_has_waited(activity: PendingActivityInfo) -> bool:
    """Return whether an activity of perdure's has been on its queue for long; one that waits for a
    retry is not on it yet.
    """
    name = activity.activity_type.name
    if name == PERMIT or not name.startswith(OWN_PREFIX):
        return False
    is_on_queue = activity.state == PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
    return (
        is_on_queue
        and _is_long_ago(activity.scheduled_time)
        and _is_long_ago(activity.next_attempt_schedule_time)
    )


def _is_long_ago(moment: Timestamp) -> bool:
    return time.time() - moment.ToMilliseconds() / 1000 > PATIENCE_SECONDS


_QUEUE = TaskQueue(name="perdure-clock", kind=TaskQueueKind.TASK_QUEUE_KIND_NORMAL)
"""An empty queue: it never gets a task."""
_POLL = timedelta(seconds=30)
_PATIENCE_SECONDS = 1.0
_LOOK_SECONDS = 0.002


async def server_time(client: Client, *, clock: Callable[[], float] = time.time) -> float:
    """Return the server's time in seconds since the epoch; if the server does not give its time,
    that of this machine's `clock`.

    Takes a few calls, some 10 to 30 ms on one machine and at most a second; never raises.
    """
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            ahead = await _ahead(client, clock)
    except (TimeoutError, RPCError):
        ahead = 0.0
    return clock() + ahead


async def _ahead(client: Client, clock: Callable[[], float]) -> float:
    """Return how far the server's clock is ahead of this machine's; 0 if they may agree."""
    identity = f"clock-{uuid.uuid4()}"
    poll = PollWorkflowTaskQueueRequest(
        namespace=client.namespace, task_queue=_QUEUE, identity=identity
    )
    before = clock()
    polling = asyncio.ensure_future(
        client.workflow_service.poll_workflow_task_queue(poll, retry=False, timeout=_POLL)
    )
    try:
        while not polling.done():
            if polled := await _last_poll(client, identity):
                after = clock()
                return 0.0 if before <= polled <= after else polled - (before + after) / 2
            await asyncio.sleep(_LOOK_SECONDS)
        await polling
        return 0.0
    finally:
        polling.cancel()
        with suppress(asyncio.CancelledError, RPCError):
            await polling


async def _last_poll(client: Client, identity: str) -> float | None:
    """Return the time of the identity's last poll, by the server's clock; None before the server
    knows it.
    """
    polled = await pollers(client, _QUEUE.name)
    found = [each.last_access_time for each in polled if each.identity == identity]
    return found[0].ToNanoseconds() / 1e9 if found else None
