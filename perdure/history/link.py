"""Reads what a run's recorded history holds: its input, its conversation, its end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from ..conversation import Conversation, ConversationRef
from ..errors import ConfigurationError
from ..messages import Message
from ..protocol import activities
from ..protocol.run import RunInput

CONVERSATION_ACTIVITIES = frozenset({activities.CALL_MODEL, activities.COMPACT, activities.JUDGE, activities.RECORD})
"""Activities whose recorded input may hold a part of the conversation."""

STORED_ELSEWHERE = "TMPRL1105"
"""Marks the SDK's error for a stored value that it was given no storage for."""

Value = TypeVar("Value")


class _MayHoldConversation(BaseModel):
    conversation: ConversationRef | None = None


@dataclass
class RecordedRun:
    """One link of a run, as its history tells it."""

    input: RunInput
    references: list[ConversationRef] = field(default_factory=list)
    """What was handed over, in order."""
    pieces: list[Message] = field(default_factory=list)
    """The conversation that was loaded from the link before, when the input could not hold it."""
    closing: HistoryEvent | None = None
    """The event that closed this link; None while it is open."""

    @property
    def seed(self) -> list[Message]:
        """The conversation that this link started from."""
        carried = self.input.carried
        return self.pieces if carried and carried.conversation else self.input.messages

    def conversation(self, until: int | None = None) -> Conversation:
        """The conversation at version `until`, or as far as it was handed over."""
        carried = self.input.carried
        conversation = Conversation.recorded(
            self.seed, version=carried.version if carried else 0, digest=carried.digest if carried else None
        )
        for reference in self.references:
            if until is not None and reference.version > until:
                break
            conversation.follow(reference)
        return conversation


async def read_input(client: Client, workflow_id: str, run_id: str) -> RunInput:
    """What one link was started with. Raises `RPCError` when there is no such link."""
    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    async for event in handle.fetch_history_events(page_size=1):
        started = event.workflow_execution_started_event_attributes
        return await decode(client, started.input.payloads, RunInput)
    raise ValueError(f"the history of {workflow_id!r}, run {run_id!r}, is empty")


async def read_run(client: Client, workflow_id: str, run_id: str) -> RecordedRun:
    """Read one link's history. Raises `RPCError` when there is none."""
    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    return await read_events([event async for event in handle.fetch_history_events()], client, workflow_id)


async def read_events(events: Iterable[HistoryEvent], client: Client, workflow_id: str) -> RecordedRun:
    """What a link's history holds; a conversation that it has not loaded yet is read from the link before."""
    run = await fold(events, client)
    carried = run.input.carried.conversation if run.input.carried else None
    if carried is not None and len(run.pieces) < carried.ends[-1]:
        previous = await read_run(client, workflow_id, carried.run_id)
        run.pieces = previous.conversation(carried.reference.version).messages
    return run


async def fold(events: Iterable[HistoryEvent], client: Client) -> RecordedRun:
    """Collect the conversation's parts that one history holds, however it was come by."""
    run: RecordedRun | None = None
    piece_events: dict[int, int] = {}
    pieces: dict[int, list[Message]] = {}
    for event in events:
        match event.event_type:
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
                started = event.workflow_execution_started_event_attributes
                run = RecordedRun(input=await decode(client, started.input.payloads, RunInput))
            case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
                scheduled = event.activity_task_scheduled_event_attributes
                if scheduled.activity_type.name in CONVERSATION_ACTIVITIES and run is not None:
                    held = await decode(client, scheduled.input.payloads, _MayHoldConversation)
                    if held.conversation is not None:
                        run.references.append(held.conversation)
                elif scheduled.activity_type.name == activities.LOAD_PIECE:
                    piece = await decode(client, scheduled.input.payloads, activities.PieceInput)
                    piece_events[event.event_id] = piece.start
            case EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
                completed = event.activity_task_completed_event_attributes
                if completed.scheduled_event_id in piece_events:
                    loaded = await decode(client, completed.result.payloads, list[Message])
                    pieces[piece_events[completed.scheduled_event_id]] = loaded
            case closing if closing in CLOSING_EVENTS and run is not None:
                run.closing = event
    if run is None:
        raise ValueError("the history does not begin with the start of a run")
    run.pieces = [message for _, messages in sorted(pieces.items()) for message in messages]
    return run


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


async def decode(client: Client, payloads: Iterable[Payload], type_: type[Value]) -> Value:
    """The one value that the payloads hold. Raises `ConfigurationError` when it is stored where `client` can't look."""
    try:
        values: list[Any] = await client.data_converter.decode(list(payloads), [type_])
    except RuntimeError as error:
        if STORED_ELSEWHERE not in str(error):
            raise
        raise ConfigurationError(
            "A value of this run was stored outside Temporal, and this process does not know where: set "
            "PERDURE_STORAGE as it was where the run was started"
        ) from error
    value: Value = values[0]
    return value
