"""Finds the pollers of a task queue and the exhausted quota in an error; imports no models, for
callers that only list runs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from temporalio.api.enums.v1 import (
    ResourceExhaustedCause,
    TaskQueueType,
    VersioningBehavior,
    WorkerVersioningMode,
)
from temporalio.api.errordetails.v1 import ResourceExhaustedFailure
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client, WorkflowExecutionDescription
from temporalio.service import RPCError, RPCStatusCode

POLL_SECONDS = 70.0
"""A worker polls at least once a minute; the server lists departed ones for longer."""
WORKFLOWS = TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW
ACTIVITIES = TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY


class Version(NamedTuple):
    """A version of a worker deployment."""

    deployment: str
    build_id: str

    def __str__(self) -> str:
        return f"{self.deployment}:{self.build_id}"


def pinned_version(run: WorkflowExecutionDescription) -> Version | None:
    """Return the only version whose workers may execute the run; None if any worker may."""
    info = run.raw_description.workflow_execution_info.versioning_info
    override = info.versioning_override
    if override.HasField("pinned"):
        found = override.pinned.version
    elif (
        info.behavior == VersioningBehavior.VERSIONING_BEHAVIOR_PINNED and not override.auto_upgrade
    ):
        found = info.deployment_version
    else:
        return None
    return Version(found.deployment_name, found.build_id)


def version_of(poller: PollerInfo) -> Version | None:
    """Return a poller's version; None without one."""
    options = poller.deployment_options
    is_versioned = (
        options.worker_versioning_mode == WorkerVersioningMode.WORKER_VERSIONING_MODE_VERSIONED
    )
    return Version(options.deployment_name, options.build_id) if is_versioned else None


async def somebody_polls(
    client: Client,
    task_queue: str,
    kind: TaskQueueType.ValueType = WORKFLOWS,
    *,
    within: float = POLL_SECONDS,
    now: float | None = None,
    version: Version | None = None,
) -> bool:
    """Return whether a worker has polled the queue for such tasks `within` the last seconds. Raises
    `RPCError`.

    `now` is the server's time; None uses this machine's clock. With `version`, only that version's
    workers count.
    """
    found = await pollers(client, task_queue, kind)
    polled = [
        each.last_access_time.ToMilliseconds()
        for each in found
        if version in (None, version_of(each))
    ]
    newest = max(polled, default=0)
    return (time.time() if now is None else now) - newest / 1000 < within


async def pollers(
    client: Client, task_queue: str, kind: TaskQueueType.ValueType = WORKFLOWS
) -> Sequence[PollerInfo]:
    """Return the queue's recent pollers. Raises `RPCError`."""
    queue = TaskQueue(name=task_queue)
    request = DescribeTaskQueueRequest(
        namespace=client.namespace, task_queue=queue, task_queue_type=kind
    )
    return (await client.workflow_service.describe_task_queue(request, retry=True)).pollers


_CAUSE = "RESOURCE_EXHAUSTED_CAUSE_"
_NO_QUOTA = (
    ResourceExhaustedCause.RESOURCE_EXHAUSTED_CAUSE_UNSPECIFIED,
    ResourceExhaustedCause.RESOURCE_EXHAUSTED_CAUSE_BUSY_WORKFLOW,
)


def quota_of(error: RPCError) -> str:
    """Return the server's exhausted quota, such as `RPS limit: namespace rate limit exceeded`.

    Returns "" for other errors, and if only one workflow is too busy.
    """
    if error.status is not RPCStatusCode.RESOURCE_EXHAUSTED:
        return ""
    for detail in error.grpc_status.details:
        failure = ResourceExhaustedFailure()
        if detail.Unpack(failure) and failure.cause not in _NO_QUOTA:
            cause = (
                ResourceExhaustedCause.Name(failure.cause).removeprefix(_CAUSE).replace("_", " ")
            )
            return f"{cause.lower().replace('rps', 'RPS').replace('aps', 'APS')}: {error.message}"
    return ""
