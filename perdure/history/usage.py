"""What each model call of a run has used, read back from the history of its last link."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from ..loop.state import UsageCounts, usages
from ..messages import Usage
from ..protocol.activities import CALL_MODEL
from .decode import decode


class _Used(BaseModel):
    usage: Usage = Usage()


class _LoopBefore(BaseModel):
    iteration_usage: list[UsageCounts] = []


class _Carried(BaseModel):
    loop: _LoopBefore = _LoopBefore()


class _Started(BaseModel):
    carried: _Carried | None = None


async def usage_of_calls(client: Client, history: Sequence[HistoryEvent]) -> list[Usage]:
    """The usage of each model call, in order; `history` is that of the run's last link, which says what came before.

    The workflow's result does not have it: that would grow with the run, and others read it. Raises like `decode`.
    """
    started = history[0].workflow_execution_started_event_attributes
    carried = (await decode(client, started.input.payloads, _Started)).carried
    used = usages(carried.loop.iteration_usage) if carried else []
    calls: set[int] = set()
    for event in history:
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            if event.activity_task_scheduled_event_attributes.activity_type.name == CALL_MODEL:
                calls.add(event.event_id)
        elif event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
            completed = event.activity_task_completed_event_attributes
            if completed.scheduled_event_id in calls:
                used.append((await decode(client, completed.result.payloads, _Used)).usage)
    return used
