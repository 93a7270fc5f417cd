"""The activities and timers that a history records: when they were, how they were asked for, how they ended."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent, MarkerRecordedEventAttributes
from temporalio.client import Client
from temporalio.exceptions import CancelledError

from ..history.events import LOCAL_ACTIVITY, decode
from ..protocol import activities

NANOSECONDS = 1_000_000_000


@dataclass
class RecordedActivity:
    """One activity, from when it was scheduled on. Times are in nanoseconds since the epoch."""

    id: str
    type: str
    scheduled: int
    input: Sequence[Payload] = ()
    """Empty for a local activity, whose input is not recorded."""
    is_local: bool = False
    started: int | None = None
    """Of the attempt that counted; None where the history does not show one."""
    ended: int | None = None
    attempt: int = 1
    worker: str = ""
    result: Sequence[Payload] | None = None
    failure: Failure | None = None
    """How it ended, if not with a result."""
    last_failure: Failure | None = None
    """How the attempt before the last one ended, as far as it is known."""
    is_cancelled: bool = False


@dataclass
class RecordedTimer:
    """One timer, of which somebody has said what it is for."""

    id: str
    why: str
    started: int
    ended: int | None = None


@dataclass
class RecordedWork:
    """Everything that takes time in one history."""

    activities: list[RecordedActivity] = field(default_factory=list)
    timers: list[RecordedTimer] = field(default_factory=list)


async def recorded_work(client: Client, history: Iterable[HistoryEvent]) -> RecordedWork:
    """What the events record. Raises like `decode`."""
    reader = _Reader(client)
    for event in history:
        await reader.read(event)
    return reader.work


async def add_pending(client: Client, workflow_id: str, run_id: str, work: RecordedWork) -> None:
    """Complete the activities of an open link with what the server knows of them, and does not record before they end.

    Raises `RPCError`.
    """
    description = await client.get_workflow_handle(workflow_id, run_id=run_id).describe()
    pending = {each.activity_id: each for each in description.raw_description.pending_activities}
    for activity in work.activities:
        if activity.ended is None and (known := pending.get(activity.id)):
            activity.attempt = max(known.attempt, 1)
            activity.worker = known.last_worker_identity
            if known.HasField("last_started_time"):
                activity.started = known.last_started_time.ToNanoseconds()
            if known.HasField("last_failure"):
                activity.last_failure = known.last_failure


async def end_of(client: Client, activity: RecordedActivity, type_: type[Any]) -> Any:
    """The result, as that type, or the error that it ended with; None where it has not ended. Raises like `decode`."""
    if activity.result is not None:
        return await decode(client, activity.result, type_)
    if activity.failure is not None:
        return await error_of(client, activity.failure)
    return CancelledError() if activity.is_cancelled else None


async def error_of(client: Client, failure: Failure) -> BaseException:
    """The error that the failure stands for; decoding changes a failure, and this one belongs to a history."""
    copy = Failure()
    copy.CopyFrom(failure)
    return await client.data_converter.decode_failure(copy)


async def input_of(client: Client, activity: RecordedActivity, type_: type[Any]) -> Any:
    """The recorded argument, as that type. Raises like `decode`."""
    return await decode(client, activity.input, type_)


class _Reader:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._scheduled: dict[int, RecordedActivity] = {}
        self._timers: dict[int, RecordedTimer] = {}
        self.work = RecordedWork()

    async def read(self, event: HistoryEvent) -> None:
        match event.event_type:
            case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
                self._schedule(event)
            case EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED:
                self._start(event)
            case EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
                completed = event.activity_task_completed_event_attributes
                self._end(completed.scheduled_event_id, event).result = completed.result.payloads
            case EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED:
                failed = event.activity_task_failed_event_attributes
                self._end(failed.scheduled_event_id, event).failure = failed.failure
            case EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
                timed_out = event.activity_task_timed_out_event_attributes
                self._end(timed_out.scheduled_event_id, event).failure = timed_out.failure
            case EventType.EVENT_TYPE_ACTIVITY_TASK_CANCEL_REQUESTED:
                requested = event.activity_task_cancel_requested_event_attributes
                self._end(requested.scheduled_event_id, event).is_cancelled = True
            case EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED:
                canceled = event.activity_task_canceled_event_attributes
                self._end(canceled.scheduled_event_id, event).is_cancelled = True
            case EventType.EVENT_TYPE_MARKER_RECORDED:
                self._local(event.marker_recorded_event_attributes, event)
            case EventType.EVENT_TYPE_TIMER_STARTED:
                await self._timer(event)
            case EventType.EVENT_TYPE_TIMER_FIRED:
                self._end_timer(event.timer_fired_event_attributes.started_event_id, event)
            case EventType.EVENT_TYPE_TIMER_CANCELED:
                self._end_timer(event.timer_canceled_event_attributes.started_event_id, event)

    def _schedule(self, event: HistoryEvent) -> None:
        scheduled = event.activity_task_scheduled_event_attributes
        activity = RecordedActivity(
            scheduled.activity_id, scheduled.activity_type.name, _time(event), scheduled.input.payloads
        )
        self._scheduled[event.event_id] = activity
        self.work.activities.append(activity)

    def _start(self, event: HistoryEvent) -> None:
        """Recorded with the end: earlier attempts leave nothing but their number and the last failure."""
        started = event.activity_task_started_event_attributes
        activity = self._scheduled[started.scheduled_event_id]
        activity.started, activity.attempt, activity.worker = _time(event), started.attempt, started.identity
        activity.last_failure = started.last_failure if started.HasField("last_failure") else None

    def _end(self, scheduled: int, event: HistoryEvent) -> RecordedActivity:
        activity = self._scheduled[scheduled]
        activity.ended = _time(event)
        return activity

    def _local(self, marker: MarkerRecordedEventAttributes, event: HistoryEvent) -> None:
        if marker.marker_name != LOCAL_ACTIVITY:
            return
        data = json.loads(marker.details["data"].payloads[0].data)
        scheduled = _seconds(data.get("original_schedule_time")) or _time(event)
        self.work.activities.append(
            RecordedActivity(
                data["activity_id"],
                data["activity_type"],
                scheduled,
                is_local=True,
                started=scheduled,
                ended=max(scheduled, _seconds(data.get("complete_time")) or 0),
                attempt=data.get("attempt", 1),
                result=marker.details["result"].payloads if "result" in marker.details else None,
                failure=marker.failure if marker.HasField("failure") else None,
            )
        )

    async def _timer(self, event: HistoryEvent) -> None:
        if event.user_metadata.HasField("summary"):
            why = await decode(self._client, [event.user_metadata.summary], str)
            timer = RecordedTimer(event.timer_started_event_attributes.timer_id, why, _time(event))
            self._timers[event.event_id] = timer
            self.work.timers.append(timer)

    def _end_timer(self, started: int, event: HistoryEvent) -> None:
        if started in self._timers:
            self._timers[started].ended = _time(event)


def is_tool(activity: RecordedActivity) -> bool:
    """Whether it executes a tool on one of perdure's workers."""
    return activity.type == activities.RUN_TOOL or activity.type.startswith(activities.TOOL_PREFIX)


def _time(event: HistoryEvent) -> int:
    return event.event_time.ToNanoseconds()


def _seconds(time: Any) -> int | None:
    return int(time["seconds"]) * NANOSECONDS + int(time.get("nanos", 0)) if time else None
