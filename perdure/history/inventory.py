"""The inventory of a run, read back from the history of its first link."""

from __future__ import annotations

import json
from collections.abc import Iterable

from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from ..protocol.activities import INVENTORY
from ..protocol.inventory import Inventory
from .decode import decode

LOCAL_ACTIVITY = "core_local_activity"
"""The marker by which Temporal's SDK records the result of a local activity."""


class InventoryReader:
    """Looks for the inventory in the events of one history, in order: the last answer is the one that holds."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._asked: set[int] = set()
        self.found: Inventory | None = None
        """The inventory; None as long as no event has it."""

    async def read(self, events: Iterable[HistoryEvent]) -> Inventory | None:
        """The inventory that these events show, if any. Raises like `decode`."""
        for event in events:
            if self.found is not None:
                break
            await self.look_at(event)
        return self.found

    async def look_at(self, event: HistoryEvent) -> None:
        """Take the inventory, if this event has it. Raises like `decode`."""
        if result := self._result_in(event):
            inventory = await decode(self._client, result, Inventory)
            self.found = inventory if inventory.is_final else None

    def _result_in(self, event: HistoryEvent) -> Iterable[Payload] | None:
        match event.event_type:
            case EventType.EVENT_TYPE_MARKER_RECORDED:
                marker = event.marker_recorded_event_attributes
                if marker.marker_name == LOCAL_ACTIVITY and _type_of(marker.details["data"].payloads) == INVENTORY:
                    return marker.details["result"].payloads if "result" in marker.details else None
            case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
                if event.activity_task_scheduled_event_attributes.activity_type.name == INVENTORY:
                    self._asked.add(event.event_id)
            case EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
                completed = event.activity_task_completed_event_attributes
                if completed.scheduled_event_id in self._asked:
                    return completed.result.payloads
        return None


def _type_of(payloads: Iterable[Payload]) -> str | None:
    """The type of the local activity that a marker's data tells of."""
    for payload in payloads:
        kind: str | None = json.loads(payload.data).get("activity_type")
        return kind
    return None
