"""The steps in a history, in one pass: activities, child workflows, timers, signals and updates."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from pydantic import BaseModel
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.exceptions import CancelledError

from ..agents import Model
from ..conversation import ConversationRef
from ..protocol import activities
from ..tool_calls import ToolRequest

Value = TypeVar("Value")


async def decode(client: Client, payloads: Iterable[Payload], type_: type[Value]) -> Value:
    """Decode the one value of the payloads. Raises `ConfigurationError` for an unreadable one."""
    values: list[Value] = await client.data_converter.decode(list(payloads), [type_])
    return values[0]


async def error_of(client: Client, failure: Failure) -> BaseException:
    """Decode a copy of the failure: decoding changes it, and the original belongs to a history."""
    copy = Failure()
    copy.CopyFrom(failure)
    return await client.data_converter.decode_failure(copy)


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


@dataclass
class HistoryLink:
    """Link of a run or a session, with its history."""

    run_id: str
    history: Sequence[HistoryEvent]

    @property
    def closing_event(self) -> HistoryEvent | None:
        """Event that closed this link; None while it is open."""
        return self.history[-1] if self.history[-1].event_type in CLOSING_EVENTS else None

    @property
    def is_open(self) -> bool:
        return self.closing_event is None

    @property
    def next_run_id(self) -> str | None:
        """Run id of the next link, if this one was continued as new."""
        return (
            self.history[
                -1
            ].workflow_execution_continued_as_new_event_attributes.new_execution_run_id
            or None
        )


@dataclass
class Times:
    """Times in seconds since the epoch; None for a time that has not come, or was not recorded."""

    scheduled: float | None = None
    started: float | None = None
    """Start of the decisive attempt."""
    ended: float | None = None
    attempts: int = 0
    """Number of executions in the history: those on lost workers count, refusals do not."""
    worker: str | None = None
    """Identity of the last attempt's worker."""
    refusals: int = 0
    """Number of times that a worker refused it, because it lacked something."""


NANOSECONDS = 1_000_000_000


def seconds(nanoseconds: int | None) -> float | None:
    """Return the time in seconds since the epoch; None for an unset one."""
    return nanoseconds / 1e9 if nanoseconds else None


def time_of(event: HistoryEvent) -> int:
    """Return the time of the event's recording, in nanoseconds since the epoch."""
    return event.event_time.ToNanoseconds()


State = Literal[
    "begun",
    "started",
    "cancel_requested",
    "completed",
    "failed",
    "timed_out",
    "canceled",
    "terminated",
    "fired",
    "signaled",
]


@dataclass(eq=False)
class RecordedStep:
    """A step that one event begins, updated by later events. Times are in nanoseconds since the
    epoch.
    """

    event_id: int
    """Id of the event that begins it."""
    id: str
    """Temporal's id."""
    type: str
    """Type of the activity or workflow; name of a signal or an update."""
    scheduled: int
    input: Sequence[Payload] = ()
    """Empty for a local activity, whose input is not recorded."""
    state: State = "begun"
    """State after the last event."""
    started: int | None = None
    """Start of the decisive attempt; None if the history has none."""
    ended: int | None = None
    result: Sequence[Payload] | None = None
    failure: Failure | None = None
    """The failure that ended it; None otherwise."""
    attempts: int = 0
    """Temporal's count of attempts."""
    worker: str = ""

    @property
    def times(self) -> Times:
        """Its times in seconds."""
        at = (seconds(self.scheduled), seconds(self.started), seconds(self.ended))
        return Times(*at, self.attempts, self.worker or None)


class InputFields(BaseModel):
    """Fields of activities' inputs that readers of histories need."""

    conversation: ConversationRef | None = None
    iteration: int = 0
    with_tools: bool = True
    fallback: int = 0
    model: Model | None = None
    request: ToolRequest | None = None


def is_refusal(failure: Failure | None) -> bool:
    """Return whether an attempt failed because its worker refused it."""
    return failure is not None and failure.application_failure_info.type in activities.REFUSED


@dataclass(eq=False)
class RecordedActivity(RecordedStep):
    """Activity; a local one is recorded at its end."""

    is_local: bool = False
    recorded: int = 0
    """Time when the end of a local activity was recorded; its own times, the workflow's, show no
    duration."""
    cancel_requested: int | None = None
    last_failure: Failure | None = None
    """Failure of the last but one attempt, if known."""
    _fields: InputFields | None = None

    @property
    def times(self) -> Times:
        times = Times(ended=seconds(self.recorded)) if self.is_local else super().times
        return replace(times, attempts=self.executions, refusals=self.refusals)

    @property
    def refusals(self) -> int:
        """Number of refusals by workers. The history has only the failures of the last attempts:
        those before count as refused if the last but one was.
        """
        before = max(self.attempts - 1, 0) if is_refusal(self.last_failure) else 0
        return before + is_refusal(self.failure)

    @property
    def executions(self) -> int:
        """Number of executions, those on lost workers included."""
        return self.attempts - self.refusals

    @property
    def is_tool(self) -> bool:
        """Whether this executes a tool on one of perdure's workers."""
        return self.type == activities.RUN_TOOL or self.type.startswith(activities.TOOL_PREFIX)

    @property
    def known_end(self) -> int | None:
        """Its end, or the time of the run's cancel request."""
        return self.cancel_requested if self.ended is None else self.ended

    async def input_fields(self, client: Client) -> InputFields:
        """Decode these fields of its input, once. Raises like `decode`."""
        if self._fields is None:
            self._fields = await decode(client, self.input, InputFields)
        return self._fields

    async def outcome(self, client: Client, type_: type[Any]) -> Any:
        """Return the result, as that type, or the error; None before the end. Raises like
        `decode`.
        """
        if self.result is not None:
            return await decode(client, self.result, type_)
        if self.failure is not None:
            return await error_of(client, self.failure)
        return CancelledError() if self.state in ("cancel_requested", "canceled") else None


@dataclass(eq=False)
class RecordedChild(RecordedStep):
    """Child workflow."""

    run_id: str = ""
    """Run id of its first link; "" before its start."""


class RecordedTimer(RecordedStep):
    """Timer; `input` is its summary, if it has one."""


class RecordedSignal(RecordedStep):
    """A received signal, or a sent one, with the receiver's workflow id."""


class RecordedUpdate(RecordedStep):
    """An accepted update."""


_CHANGES: dict[int, tuple[str, Any]] = {
    EventType.Value(f"EVENT_TYPE_{kind}_{state.upper()}"): (field, state)
    for kind, field, states in (
        (
            "ACTIVITY_TASK",
            "scheduled_event_id",
            "started cancel_requested completed failed timed_out canceled",
        ),
        ("START_CHILD_WORKFLOW_EXECUTION", "initiated_event_id", "failed"),
        (
            "CHILD_WORKFLOW_EXECUTION",
            "initiated_event_id",
            "started completed failed timed_out canceled terminated",
        ),
        ("TIMER", "started_event_id", "fired canceled"),
        ("EXTERNAL_WORKFLOW_EXECUTION", "initiated_event_id", "signaled"),
        ("WORKFLOW_EXECUTION_UPDATE", "accepted_event_id", "completed"),
    )
    for state in states.split()
}
"""By event type: the field with the id of the changed step, and the step's new state."""

LOCAL_ACTIVITY = "core_local_activity"
"""The marker with which Temporal's SDK records the result of a local activity."""


class RecordedWork:
    """Steps begun by the events of one history, in order."""

    def __init__(self, events: Iterable[HistoryEvent] = ()) -> None:
        self.activities: list[RecordedActivity] = []
        self.children: list[RecordedChild] = []
        self.timers: list[RecordedTimer] = []
        self.signals: list[RecordedSignal] = []
        """Received signals."""
        self.updates: list[RecordedUpdate] = []
        self._begun: dict[int, RecordedStep] = {}
        for event in events:
            self.add(event)

    @property
    def executions(self) -> list[RecordedActivity | RecordedChild]:
        """Activities and children, in the order of their beginning."""
        return sorted([*self.activities, *self.children], key=lambda step: step.event_id)

    def activities_of(self, types: Iterable[str]) -> list[RecordedActivity]:
        """Return the activities of these types whose input is recorded."""
        return [each for each in self.activities if each.type in types and not each.is_local]

    def add(self, event: HistoryEvent) -> RecordedStep | None:
        """Take the next event; return the step that it begins or changes, None for any other
        event.
        """
        if change := _CHANGES.get(event.event_type):
            return self._change(event, *change)
        begin = _BEGINNINGS.get(event.event_type)
        step = begin(event, getattr(event, event.WhichOneof("attributes") or "")) if begin else None
        if step is not None:
            self._begun[step.event_id] = step
            self._keep(step)
        return step

    def _keep(self, step: RecordedStep) -> None:
        match step:
            case RecordedActivity():
                self.activities.append(step)
            case RecordedChild():
                self.children.append(step)
            case RecordedTimer():
                self.timers.append(step)
            case RecordedSignal(id=""):
                self.signals.append(step)
            case RecordedUpdate():
                self.updates.append(step)

    def _change(self, event: HistoryEvent, field: str, state: State) -> RecordedStep | None:
        changed: Any = getattr(event, event.WhichOneof("attributes") or "")
        step, at = self._begun.get(getattr(changed, field)), time_of(event)
        if step is None:
            return None
        step.state = state
        if state == "started":
            step.started, step.attempts = at, getattr(changed, "attempt", 1)
            if isinstance(step, RecordedActivity):
                step.worker = changed.identity
                step.last_failure = (
                    changed.last_failure if changed.HasField("last_failure") else None
                )
            elif isinstance(step, RecordedChild):
                step.run_id = changed.workflow_execution.run_id
        elif isinstance(step, RecordedActivity) and state == "cancel_requested":
            step.cancel_requested = at
        else:
            step.ended, step.result, step.failure = (
                at,
                _result(state, changed),
                getattr(changed, "failure", None),
            )
        return step


def _result(state: State, changed: Any) -> Sequence[Payload] | None:
    if state != "completed":
        return None
    if hasattr(changed, "outcome"):
        return changed.outcome.success.payloads if changed.outcome.HasField("success") else None
    payloads: Sequence[Payload] = changed.result.payloads
    return payloads


def _activity(event: HistoryEvent, scheduled: Any) -> RecordedActivity:
    type = scheduled.activity_type.name
    return RecordedActivity(
        event.event_id, scheduled.activity_id, type, time_of(event), scheduled.input.payloads
    )


def _local_activity(event: HistoryEvent, marker: Any) -> RecordedActivity | None:
    if marker.marker_name != LOCAL_ACTIVITY:
        return None
    data = json.loads(marker.details["data"].payloads[0].data)
    scheduled = _nanoseconds(data.get("original_schedule_time")) or time_of(event)
    activity = RecordedActivity(
        event.event_id, data["activity_id"], data["activity_type"], scheduled, is_local=True
    )
    activity.started, activity.attempts, activity.recorded = (
        scheduled,
        data.get("attempt") or 1,
        time_of(event),
    )
    activity.ended = max(scheduled, _nanoseconds(data.get("complete_time")) or 0)
    activity.result = marker.details["result"].payloads if "result" in marker.details else None
    activity.failure = marker.failure if marker.HasField("failure") else None
    activity.state = "failed" if activity.result is None else "completed"
    return activity


def _nanoseconds(time: Any) -> int | None:
    return int(time["seconds"]) * NANOSECONDS + int(time.get("nanos", 0)) if time else None


def _child(event: HistoryEvent, initiated: Any) -> RecordedChild:
    type = initiated.workflow_type.name
    return RecordedChild(
        event.event_id, initiated.workflow_id, type, time_of(event), initiated.input.payloads
    )


def _timer(event: HistoryEvent, started: Any) -> RecordedTimer:
    summary = [event.user_metadata.summary] if event.user_metadata.HasField("summary") else []
    return RecordedTimer(event.event_id, started.timer_id, "", time_of(event), summary)


def _signal(event: HistoryEvent, signal: Any) -> RecordedSignal:
    receiver = (
        signal.workflow_execution.workflow_id if hasattr(signal, "workflow_execution") else ""
    )
    return RecordedSignal(
        event.event_id, receiver, signal.signal_name, time_of(event), signal.input.payloads
    )


def _update(event: HistoryEvent, accepted: Any) -> RecordedUpdate:
    id, asked = accepted.protocol_instance_id, accepted.accepted_request.input
    return RecordedUpdate(event.event_id, id, asked.name, time_of(event), asked.args.payloads)


_BEGINNINGS = {
    EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED: _activity,
    EventType.EVENT_TYPE_MARKER_RECORDED: _local_activity,
    EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED: _child,
    EventType.EVENT_TYPE_TIMER_STARTED: _timer,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED: _signal,
    EventType.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED: _signal,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED: _update,
}
