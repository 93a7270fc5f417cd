"""What to look for in any history: the event that closes it, its activities, the conversation that was loaded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from google.protobuf.timestamp_pb2 import Timestamp
from pydantic import BaseModel
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import (
    ActivityTaskCompletedEventAttributes,
    ActivityTaskScheduledEventAttributes,
    HistoryEvent,
)
from temporalio.client import Client
from temporalio.exceptions import ApplicationError, FailureError

from ..conversation import Operation
from ..errors import ConfigurationError
from ..loop.state import UsageCounts, usages
from ..messages import JsonObject, Message, ModelReply, ToolCall, ToolResult, Usage
from ..protocol import activities
from ..protocol.activities import CALL_MODEL, INVENTORY, MODEL_ERROR, NOT_HERE
from ..protocol.inventory import Inventory

STORED_ELSEWHERE = "TMPRL1105"
"""Marks the SDK's error for a value that is stored outside Temporal, in a storage that the client does not have."""

Value = TypeVar("Value")


async def decode(client: Client, payloads: Iterable[Payload], type_: type[Value]) -> Value:
    """The one value that the payloads hold. Raises `ConfigurationError` when `client` can't reach its storage."""
    try:
        values: list[Any] = await client.data_converter.decode(list(payloads), [type_])
    except RuntimeError as error:
        if STORED_ELSEWHERE not in str(error):
            raise
        raise ConfigurationError(
            "A value of this run is stored outside Temporal, and this process does not know where: set "
            "PERDURE_STORAGE to what it was where the run was started"
        ) from error
    value: Value = values[0]
    return value


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


ExecutedBy = Literal["tool", "local", "agent", "other"]
"""A tool of perdure's worker, as an activity or as a local one; another agent's run; what others have on Temporal."""


@dataclass
class Times:
    """When something happened, in seconds since the epoch; None for what has not, or was not recorded."""

    scheduled: float | None = None
    started: float | None = None
    """The attempt that ended it."""
    ended: float | None = None
    attempts: int = 0
    """How often it was started, as far as the history says: lost workers count, too."""
    worker: str | None = None
    """Who executed the last attempt."""


@dataclass
class ModelCall:
    """One try of the model call of an iteration."""

    iteration: int
    number: int
    """From 1; the loop tries again after some failures."""
    with_tools: bool
    operations: list[Operation]
    """How the conversation has changed since the try before it."""
    messages: int
    """How many the conversation had."""
    times: Times
    reply: ModelReply | None = None
    fallback: int = 0
    """Which model of the agent's `fallback` was called, from 1; 0 for its own."""
    failure: JsonObject | None = None
    """Why there is no reply; None, too, while the call is under way."""


@dataclass
class Execution:
    """How a tool call was executed."""

    by: ExecutedBy
    times: Times
    name: str = ""
    arguments: JsonObject | None = None
    """With which it was, after guardrails and persons; None where the history does not say."""
    payloads: Sequence[Payload] | None = None
    """The result; None as long as there is none, or after a failure."""
    refused: bool = False
    """Whether it has ended because no worker had it, or what it needs, and none had begun with it before."""
    outcome_unknown: bool = False
    """Whether it has ended without a result although a worker may have begun with it."""
    refused_before: bool = True
    """Whether the executions before it were refused, if there were any."""
    count: int = 1
    """How often it was executed because it had failed."""
    run: tuple[str, str] | None = None
    """The child workflow: its id, and the run id of its first link."""


@dataclass
class Called:
    """One tool call of the model, and what became of it."""

    iteration: int
    index: int
    call: ToolCall
    execution: Execution | None = None
    """None for a call that was not executed: refused, denied, answered by a person, cancelled."""
    result: ToolResult | None = None
    """Whole; None as long as there is none."""
    told: ToolResult | None = None
    """What the model was told; None as long as it was not."""


def seconds(moment: Timestamp) -> float | None:
    """The time in seconds since the epoch; None for one that is not set."""
    return moment.ToNanoseconds() / 1e9 if moment.seconds else None


async def was_refused(client: Client, failure: Failure) -> bool:
    """Whether the failure says that no worker had the activity, and that none had begun with it."""
    if failure.application_failure_info.type != NOT_HERE:
        return False
    error = await client.data_converter.decode_failure(failure)
    lacking = error.details[0] if isinstance(error, ApplicationError) and error.details else None
    return isinstance(lacking, dict) and lacking.get("starts") == 0


async def failure_data(client: Client, failure: Failure) -> JsonObject:
    """The kind and the text of a recorded failure, and what a provider said with it."""
    error = await client.data_converter.decode_failure(failure)
    if not isinstance(error, ApplicationError):
        kind = type(error).__name__.removesuffix("Error").lower()
        return {"kind": kind, "message": error.message if isinstance(error, FailureError) else str(error)}
    said: JsonObject = {"kind": error.type or "error", "message": error.message}
    if error.type == MODEL_ERROR and error.details and isinstance(error.details[0], dict):
        said |= {name: value for name, value in error.details[0].items() if value is not None}
    return said
