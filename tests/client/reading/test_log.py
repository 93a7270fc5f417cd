"""A reader who replays the history of an open run sees nothing that the run may not do."""

from __future__ import annotations

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory
from temporalio.service import RPCError, RPCStatusCode

from perdure.client.reading.log import replay
from perdure.client.reading.watch import is_away
from perdure.payloads.converter import perdure_data_converter
from tests.histories.golden import FOLDER, Golden, id_of


def recorded(name: str) -> tuple[str, list[HistoryEvent]]:
    golden = Golden.model_validate_json((FOLDER / f"0.1/{name}.json").read_bytes())
    id = id_of(golden.history)
    return id, list(WorkflowHistory.from_json(id, golden.history).events)


async def seen(id: str, events: list[HistoryEvent]) -> list[tuple[int, str, int]]:
    page = (await replay(id, events, perdure_data_converter)).events(0)
    return [(event.seq, event.type, event.version) for event in page.events]


def cancelled(events: list[HistoryEvent]) -> list[HistoryEvent]:
    """The history with a cancellation, and the workflow task that takes it up."""
    grown = list(events)
    for name in (
        "WORKFLOW_EXECUTION_CANCEL_REQUESTED",
        "WORKFLOW_TASK_SCHEDULED",
        "WORKFLOW_TASK_STARTED",
        "WORKFLOW_TASK_COMPLETED",
    ):
        type = EventType.Value(f"EVENT_TYPE_{name}")
        event = HistoryEvent(event_id=len(grown) + 1, event_type=type, event_time=Timestamp())
        attributes = getattr(event, f"{name.lower()}_event_attributes")
        attributes.SetInParent()
        if name == "WORKFLOW_TASK_STARTED":
            attributes.scheduled_event_id = len(grown)
        if name == "WORKFLOW_TASK_COMPLETED":
            attributes.scheduled_event_id = len(grown) - 1
            attributes.started_event_id = len(grown)
        grown.append(event)
    return grown


async def test_a_reply_that_the_run_has_not_taken_up_may_be_cancelled_with_it() -> None:
    id, events = recorded("tools-1")
    result = EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED
    places = [place for place, event in enumerate(events, 1) if event.event_type == result]
    assert len(places) > 3
    for place in places:
        early = events[:place]
        before, after = await seen(id, early), await seen(id, cancelled(early))
        assert after[-1][1] in ("cancelled", "done")
        assert after[: len(before)] == before


async def test_what_a_task_has_recorded_is_seen() -> None:
    """An update that was accepted too, whose event follows those of the task."""
    for name in ("steering-1", "approval-1"):
        id, events = recorded(name)
        whole = await seen(id, events)
        count = 0
        for place in range(4, len(events)):
            if events[place].event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED:
                part = await seen(id, events[:place])
                assert part == whole[: len(part)]
                assert len(part) >= count
                count = len(part)
        assert count >= len(whole) // 2


@pytest.mark.parametrize("text", ["something went wrong, please retry (5bb03ea9)", "h2 error"])
def test_a_host_of_the_server_that_gives_its_runs_away_is_away(text: str) -> None:
    assert is_away(RPCError(text, RPCStatusCode.UNKNOWN, b""))
