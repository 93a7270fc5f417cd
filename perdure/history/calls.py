"""The model calls and tool calls of a run, one after the other, as the histories of its links record them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from pydantic import BaseModel
from temporalio.api.enums.v1 import EventType, TimeoutType
from temporalio.api.history.v1 import (
    ActivityTaskScheduledEventAttributes,
    HistoryEvent,
)
from temporalio.client import Client

from ..conversation import Conversation, ConversationRef
from ..messages import ModelReply
from ..operations import Append, Operation, Rewrite
from ..protocol import activities
from ..tool_calls import ToolRequest
from .called import Called, Execution, ModelCall, Times, failure_data, seconds, was_refused
from .decode import decode
from .executions import Round, ToResult
from .link import CONVERSATION_ACTIVITIES, RecordedLink

_ACTIVITY = "activity_task_"
_CHILD = ("start_child_workflow_execution_", "child_workflow_execution_")


class _Asked(BaseModel):
    """What the input of any activity may have."""

    conversation: ConversationRef | None = None
    iteration: int = 0
    with_tools: bool = True
    fallback: int = 0
    request: ToolRequest | None = None


class CallReader:
    """Reads a run link by link; keeps the conversation, and of the calls only those that have not ended."""

    def __init__(self, client: Client, workflow_id: str, to_result: ToResult) -> None:
        self._client = client
        self._id = workflow_id
        self._to_result = to_result
        self._conversation: Conversation | None = None
        self._news: list[Operation] = []
        self._round = Round()
        self._last = (0, 0)
        """Iteration and number of the last try of a model call."""
        self._models: dict[int, ModelCall] = {}
        self._tools: dict[int, Execution] = {}

    @property
    def version(self) -> int:
        """Of the conversation, as far as it was read."""
        return self._conversation.version if self._conversation else 0

    async def read(self, link: RecordedLink) -> AsyncIterator[ModelCall | Called]:
        """The calls that this link records; links must come in order. Raises like `decode`.

        A tool call comes once the history shows what followed it.
        """
        self._begin(link)
        for event in link.history:
            for call in await self._look_at(event):
                yield call

    async def end(self, operations: Sequence[Operation]) -> list[ModelCall | Called]:
        """What is left after the last link: `operations` are the changes of the conversation that no call has shown."""
        self._apply(operations)
        return [*self._models.values(), *await self._round.called(self._client, self._to_result)]

    def take_news(self) -> list[Operation]:
        """How the conversation has changed since the last model call that has begun."""
        news, self._news = self._news, []
        return news

    def _begin(self, link: RecordedLink) -> None:
        known = self._conversation.messages if self._conversation else None
        if known is not None:
            # After its last call, the link before may have added what only this link's beginning shows.
            if link.seed[: len(known)] != known:
                self._apply([Rewrite(messages=list(link.seed))])
            elif rest := link.seed[len(known) :]:
                self._apply([Append(messages=list(rest))])
        begun = link.begun
        self._conversation = Conversation(begun.messages, version=begun.version)

    def _apply(self, operations: Sequence[Operation]) -> None:
        assert self._conversation is not None
        for operation in operations:
            self._conversation.apply(operation)
            self._news.append(operation)
            if isinstance(operation, Append):
                self._round.tell(operation.messages)
        self._conversation.operations.clear()
        self._conversation.first_version = self._conversation.version

    async def _look_at(self, event: HistoryEvent) -> Sequence[ModelCall | Called]:
        kind = EventType.Name(event.event_type).removeprefix("EVENT_TYPE_").lower()
        if kind == "activity_task_scheduled":
            return await self._scheduled(event)
        if kind.startswith(_ACTIVITY):
            ended = await self._changed(event, kind.removeprefix(_ACTIVITY))
            return [ended] if ended else []
        if kind.startswith(_CHILD):
            self._round.child(self._id, event, kind.rpartition("_")[2])
        elif kind == "marker_recorded":
            self._round.marker(event)
        return []

    async def _scheduled(self, event: HistoryEvent) -> Sequence[Called]:
        scheduled = event.activity_task_scheduled_event_attributes
        kind, at = scheduled.activity_type.name, Times(scheduled=seconds(event.event_time))
        if kind not in CONVERSATION_ACTIVITIES:
            if execution := await self._execution(kind, scheduled, at):
                self._tools[event.event_id] = execution
            return []
        asked = await decode(self._client, scheduled.input.payloads, _Asked)
        if asked.conversation is not None:
            self._follow(asked.conversation)
        if kind != activities.CALL_MODEL:
            return []
        ended, self._round = self._round, Round()
        self._models[event.event_id] = self._begun(asked, at)
        return await ended.called(self._client, self._to_result)

    def _follow(self, reference: ConversationRef) -> None:
        known = self.version - reference.base
        if 0 <= known < len(reference.operations):
            self._apply(reference.operations[known:])

    def _begun(self, asked: _Asked, at: Times) -> ModelCall:
        iteration, number = self._last
        self._last = (asked.iteration, number + 1 if asked.iteration == iteration else 1)
        messages = len(self._conversation.messages) if self._conversation else 0
        return ModelCall(*self._last, asked.with_tools, self.take_news(), messages, at, fallback=asked.fallback)

    async def _execution(
        self, kind: str, scheduled: ActivityTaskScheduledEventAttributes, at: Times
    ) -> Execution | None:
        if kind == activities.RUN_TOOL or kind.startswith(activities.TOOL_PREFIX):
            request = (await decode(self._client, scheduled.input.payloads, _Asked)).request
            return self._round.scheduled(request, at) if request else None
        return self._round.scheduled_elsewhere(scheduled.activity_id, at)

    async def _changed(self, event: HistoryEvent, kind: str) -> ModelCall | None:
        """Take what has become of an activity; returns the try of a model call that has ended by it."""
        changed = getattr(event, f"activity_task_{kind}_event_attributes")
        id = getattr(changed, "scheduled_event_id", 0)
        call, execution = self._models.get(id), self._tools.get(id)
        times = call.times if call else execution.times if execution else None
        if times is None or kind == "cancel_requested":
            return None
        if kind == "started":
            times.started, times.attempts = seconds(event.event_time), changed.attempt
            times.worker = changed.identity
            return None
        times.ended = seconds(event.event_time)
        if execution is not None:
            execution.payloads = changed.result.payloads if kind == "completed" else None
            if kind == "failed":
                execution.refused = execution.refused_before and await was_refused(self._client, changed.failure)
                failed_as = changed.failure.application_failure_info.type
                execution.outcome_unknown = execution.by == "tool" and failed_as not in activities.NOT_EXECUTED
            elif kind == "timed_out":
                timed_out = changed.failure.timeout_failure_info.timeout_type
                execution.outcome_unknown = timed_out != TimeoutType.TIMEOUT_TYPE_SCHEDULE_TO_START
            return None
        assert call is not None
        del self._models[id]
        if kind == "completed":
            call.reply = await decode(self._client, changed.result.payloads, ModelReply)
            self._round = Round(call.iteration, call.reply.message.tool_calls)
        elif kind == "canceled":
            call.failure = {"kind": "cancelled", "message": "the run was cancelled"}
        else:
            call.failure = await failure_data(self._client, changed.failure)
        return call
