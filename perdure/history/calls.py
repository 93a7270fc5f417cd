"""The model calls and tool calls of a run, one after the other, as the histories of its links record them."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from pydantic import BaseModel
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType, TimeoutType
from temporalio.api.history.v1 import ActivityTaskScheduledEventAttributes, HistoryEvent
from temporalio.client import Client

from ..conversation import Append, Conversation, ConversationRef, Operation, Rewrite
from ..loop.state import CORRECTION
from ..messages import Message, ModelReply, ToolCall, ToolResult
from ..protocol import activities, names
from ..protocol.outcome import RunOutput
from ..tool_calls import PreparedRun, ToolRequest
from .events import LOCAL_ACTIVITY, Called, Execution, ModelCall, Times, decode, failure_data, seconds, was_refused
from .link import CONVERSATION_ACTIVITIES, RecordedLink

ToResult = Callable[[Any], ToolResult]
"""Makes a result of what others' activities and workflows, and other agents, have answered."""

_PLACE = re.compile(r"(?:.*/)?(\d+)[.-](\d+)(?:\..*)?", re.DOTALL)
"""The ids of others' activities, and of children: iteration and index."""


class Round:
    """The tool calls of one reply, with what is known of each."""

    def __init__(self, iteration: int = 0, calls: Sequence[ToolCall] = ()) -> None:
        self.iteration = iteration
        self._calls = calls
        self._executions: dict[int, Execution] = {}
        """By the call's place in the reply."""
        self._local: list[Execution] = []
        """Those of local activities, of which the history says the tool's name only."""
        self._told: list[ToolResult] = []
        """In the order of the calls."""

    def tell(self, messages: Sequence[Message]) -> None:
        """Take the results among messages that were added to the conversation."""
        for message in messages:
            if message.role == "tool" and len(self._told) < len(self._calls):
                status = message.metadata.get("status", "success")
                result = ToolResult.model_validate({"parts": message.parts, "status": status})
                result.error_kind = message.metadata.get("error_kind")
                self._told.append(result)

    def scheduled(self, request: ToolRequest, at: Times) -> Execution | None:
        """The execution of a tool by perdure's worker; one that is repeated is counted. None for another round's."""
        before = self._executions.get(request.index)
        execution = Execution("tool", at, request.name, request.arguments)
        if before is not None:
            execution.count, at.scheduled = before.count + 1, before.times.scheduled
            execution.refused_before = before.refused
        return self._put(request.iteration, request.index, execution)

    def scheduled_elsewhere(self, activity_id: str, at: Times) -> Execution | None:
        """An activity of somebody else's worker; None for one that executes no call of this round."""
        found = _PLACE.fullmatch(activity_id)
        return self._put(int(found[1]), int(found[2]), Execution("other", at)) if found else None

    def _put(self, iteration: int, index: int, execution: Execution) -> Execution | None:
        if iteration != self.iteration:
            return None
        self._executions[index] = execution
        return execution

    def child(self, run: str, event: HistoryEvent, kind: str) -> None:
        """Take what an event says of a child workflow; `run` is the id of the run that has started it."""
        changed: Any = getattr(event, event.WhichOneof("attributes") or "")
        id = changed.workflow_id if hasattr(changed, "workflow_id") else changed.workflow_execution.workflow_id
        found = _PLACE.fullmatch(id.removeprefix(run)) if id.startswith(f"{run}/") else None
        if found is None or int(found[1]) != self.iteration:
            return
        index, at = int(found[2]), seconds(event.event_time)
        if kind == "initiated":
            is_agent = changed.workflow_type.name == names.WORKFLOW
            prepared = self._executions.get(index)
            begun = Execution("agent" if is_agent else "other", Times(scheduled=at), run=(id, ""))
            begun.arguments = prepared.arguments if prepared else None
            self._executions[index] = begun
        elif execution := self._executions.get(index):
            if kind == "started":
                execution.run = (id, changed.workflow_execution.run_id)
                execution.times.started, execution.times.attempts = at, 1
            else:
                execution.times.ended = at
                execution.payloads = changed.result.payloads if kind == "completed" else None

    def marker(self, event: HistoryEvent) -> None:
        """Take the result of a local activity, if it is that of a tool."""
        marker = event.marker_recorded_event_attributes
        if marker.marker_name != LOCAL_ACTIVITY or "result" not in marker.details:
            return
        told = json.loads(marker.details["data"].payloads[0].data)
        kind = str(told.get("activity_type"))
        if kind.startswith(activities.TOOL_PREFIX):
            times = Times(ended=seconds(event.event_time), attempts=int(told.get("attempt") or 1))
            name = kind.removeprefix(activities.TOOL_PREFIX)
            self._local.append(Execution("local", times, name, payloads=marker.details["result"].payloads))

    async def called(self, client: Client, to_result: ToResult) -> list[Called]:
        """All calls, with their results. Raises like `decode`."""
        found = []
        for index, call in enumerate(self._calls):
            told = self._told[index] if index < len(self._told) else None
            called = Called(self.iteration, index, call, self._executions.get(index), told=told)
            if called.execution is None:
                called.execution = await self._local_of(client, called)
            called.result = await _result(client, called, to_result)
            found.append(called)
        return found

    async def _local_of(self, client: Client, called: Called) -> Execution | None:
        """The local execution of the call: the one with its result, or the only one of its tool."""
        name = called.call.name
        own = [each for each in self._local if each.name == name]
        is_only = len(own) == 1 == sum(call.name == name for call in self._calls)
        for execution in own:
            result = await decode(client, execution.payloads or (), ToolResult)
            if is_only or (called.told is not None and result.text == called.told.text):
                self._local.remove(execution)
                return execution
        return None


async def _result(client: Client, called: Called, to_result: ToResult) -> ToolResult | None:
    """Whole, where the execution has left it in the history; else what the model was told."""
    execution = called.execution
    if execution is None or execution.payloads is None:
        return called.told
    try:
        return await _decoded(client, execution, execution.payloads, to_result) or called.told
    except Exception:
        if execution.by != "other":
            raise
        # What others answer need not be readable here, by whatever converter: the model was told what that led to.
        return called.told


async def _decoded(
    client: Client, execution: Execution, payloads: Sequence[Payload], to_result: ToResult
) -> ToolResult | None:
    match execution.by:
        case "agent":
            return to_result((await decode(client, payloads, RunOutput)).output)
        case "other":
            return to_result(await decode(client, payloads, object) if payloads else "")
        case _:
            prepared = await decode(client, payloads, PreparedRun)
            if prepared.messages is not None:
                return None
            return ToolResult.model_validate(prepared.model_dump(exclude={"messages", "inputs"}))


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


def end_of_round(operations: Sequence[Operation]) -> int:
    """How many of the operations between two model calls belong to the first one's iteration.

    These add what the model has said, the results of its tools, and a correction of its answer. What follows belongs
    to the next iteration: steering messages, a trim, an input guardrail's rewrite.
    """
    for number, operation in enumerate(operations):
        if not (isinstance(operation, Append) and all(map(_ends_round, operation.messages))):
            return number
    return len(operations)


def steering_in(operations: Sequence[Operation]) -> list[str]:
    """The steering messages that were read between two model calls, which these operations lie between."""
    later = operations[end_of_round(operations) :]
    added = [message for operation in later if isinstance(operation, Append) for message in operation.messages]
    return [message.text for message in added if message.role == "user"]


def _ends_round(message: Message) -> bool:
    return message.role in ("assistant", "tool") or (message.role == "user" and message.text.startswith(CORRECTION))
