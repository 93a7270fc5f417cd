"""References of a history to the outside: stored values, and runs that it began."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from ..protocol.names import NOTICE_WORKFLOW, SESSION_WORKFLOW, WORKFLOW

OWN = (WORKFLOW, SESSION_WORKFLOW, NOTICE_WORKFLOW)
"""The types of workflows that contain messages of a run."""
_DIGEST = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_REFERENCE = re.compile(rb"json/external-storage-reference|ExternalStorageReference")


def digests_in(data: bytes) -> set[str]:
    """Return the digests of stored values to which a serialised message of Temporal's API refers,
    and texts that only look like one.
    """
    found = _DIGEST.findall(data) if _REFERENCE.search(data) else ()
    return {digest.decode() for digest in found}


def own_child(event: HistoryEvent) -> WorkflowExecution | None:
    """Return the run or webhook notice that begins with this event of its parent; else None."""
    started = event.child_workflow_execution_started_event_attributes
    is_own = event.event_type == EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED
    return started.workflow_execution if is_own and started.workflow_type.name in OWN else None


async def events_of_link(
    client: Client, workflow_id: str, run_id: str
) -> AsyncIterator[HistoryEvent]:
    """Yield the events of one link; none if it is gone. Raises `RPCError`."""
    try:
        async for event in client.get_workflow_handle(
            workflow_id, run_id=run_id
        ).fetch_history_events():
            yield event
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
