"""What to look for in any history: the event that closes it, its activities, the conversation that was loaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import (
    ActivityTaskCompletedEventAttributes,
    ActivityTaskScheduledEventAttributes,
    HistoryEvent,
)
from temporalio.client import Client

from ..messages import Message
from ..protocol import activities
from .decode import decode

CLOSING_EVENTS = frozenset(
    {
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW,
    }
)
"""The last event of a closed link is one of these."""


async def loaded_pieces(client: Client, history: Iterable[HistoryEvent]) -> list[Message]:
    """The messages of all pieces that the link has loaded, in the order of the conversation."""
    loads = {
        event_id: await decode(client, scheduled.input.payloads, activities.PieceInput)
        for event_id, scheduled in scheduled_activities(history, {activities.LOAD_PIECE})
    }
    pieces = {
        loads[completed.scheduled_event_id].start: await decode(client, completed.result.payloads, list[Message])
        for completed in _completed(history)
        if completed.scheduled_event_id in loads
    }
    return [message for _, messages in sorted(pieces.items()) for message in messages]


def scheduled_activities(
    history: Iterable[HistoryEvent], types: Iterable[str]
) -> Iterator[tuple[int, ActivityTaskScheduledEventAttributes]]:
    """The activities of these types that were scheduled, by event id."""
    for event in history:
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            scheduled = event.activity_task_scheduled_event_attributes
            if scheduled.activity_type.name in types:
                yield event.event_id, scheduled


def _completed(history: Iterable[HistoryEvent]) -> Iterator[ActivityTaskCompletedEventAttributes]:
    for event in history:
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
            yield event.activity_task_completed_event_attributes
