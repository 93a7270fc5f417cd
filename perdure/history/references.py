"""References of a history to the outside: stored values, and workflows that it began."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from ..protocol.names import NOTICE_WORKFLOW, SESSION_WORKFLOW, WORKFLOW

OWN = (WORKFLOW, SESSION_WORKFLOW, NOTICE_WORKFLOW)
"""The types of workflows that contain messages of a run."""
_DIGEST = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_REFERENCE = re.compile(rb"json/external-storage-reference|ExternalStorageReference")
_DRIVER = re.compile(rb'"driver_?[nN]ame":\s*"([^"]{1,200})"')


@dataclass
class HistoryReferences:
    """References of one or several histories."""

    digests: set[str] = field(default_factory=set)
    """Digests of stored values, and text that only looks like one."""
    drivers: set[str] = field(default_factory=set)
    """The names of the drivers that have stored them."""
    children: dict[str, str] = field(default_factory=dict)
    """The runs and webhook notices begun, by their ids: Temporal's id of the first link."""
    foreign: dict[str, str] = field(default_factory=dict)
    """The same for foreign workflows."""

    def read(self, data: bytes) -> None:
        """Take the references in a serialised message of Temporal's API."""
        if _REFERENCE.search(data):
            self.digests |= {found.decode() for found in _DIGEST.findall(data)}
            self.drivers |= {found.decode(errors="replace") for found in _DRIVER.findall(data)}

    def read_event(self, event: HistoryEvent) -> None:
        """Take the references of the next event of a history."""
        self.read(event.SerializeToString())
        if event.event_type == EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED:
            started = event.child_workflow_execution_started_event_attributes
            own, child = started.workflow_type.name in OWN, started.workflow_execution
            (self.children if own else self.foreign)[child.workflow_id] = child.run_id


async def read_references(
    client: Client, workflow_id: str, run_id: str, *, into: HistoryReferences | None = None
) -> HistoryReferences:
    """Read the references of one link; none if it is gone. Raises `RPCError`."""
    found = HistoryReferences() if into is None else into
    try:
        async for event in client.get_workflow_handle(
            workflow_id, run_id=run_id
        ).fetch_history_events():
            found.read_event(event)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
    return found
