"""The results of a run's tool calls, whole, as the histories of its links record them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from ..errors import UnknownCallError
from ..messages import ModelReply, ToolResult
from ..protocol import activities, names
from ..protocol.outcome import RunOutput
from ..tool_calls import ToolRequest
from ..tool_results import CallPlace, chosen
from .events import decode

ToResult = Callable[[Any], ToolResult]
"""Makes a result of what others' activities and workflows, and other agents, have answered."""

_PLACE = re.compile(r"(?:.*/)?(\d+)[.-](\d+)(?:\..*)?", re.DOTALL)
"""The ids of others' activities, and of children: iteration and index."""


@dataclass(frozen=True)
class _Place:
    iteration: int
    index: int


@dataclass
class _Answer:
    """An answer that the history records."""

    by: Literal["tool", "agent", "other"]
    payloads: Sequence[Payload]


class _Asks(BaseModel):
    request: ToolRequest


class _Iteration(BaseModel):
    iteration: int


async def read_result(
    client: Client,
    workflow_id: str,
    run_id: str,
    call_id: str,
    *,
    iteration: int | None,
    to_result: ToResult,
    ignored: Sequence[str] = (),
) -> ToolResult:
    """The result of the last call of that id up to this link, or of the one in that iteration, as it came.

    Calls of the tools that are `ignored` do not count. Raises `UnknownCallError` when no history that is still there
    has one, `RPCError` when there is no such link, and `ConfigurationError` for a value stored where `client` can't
    look.
    """
    known: list[CallPlace] = []
    current: str | None = run_id
    while current:
        link = _Link(client, workflow_id)
        try:
            await link.read(current)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND or current == run_id:
                raise
            break  # older than what the namespace keeps
        answers = {place: answer for place, answer in (await link.answers()).items() if place.name not in ignored}
        known += answers
        with suppress(UnknownCallError):
            return await _decoded(client, answers[chosen(answers, call_id, iteration)], to_result)
        current = link.previous
    raise UnknownCallError(_text(known, call_id, iteration))


def _text(known: Iterable[CallPlace], call_id: str, iteration: int | None) -> str:
    try:
        chosen(known, call_id, iteration)
    except UnknownCallError as error:
        return str(error)
    raise AssertionError("a call that is known was not found")


async def _decoded(client: Client, answer: _Answer, to_result: ToResult) -> ToolResult:
    match answer.by:
        case "tool":
            return await decode(client, answer.payloads, ToolResult)
        case "agent":
            return to_result((await decode(client, answer.payloads, RunOutput)).output)
        case "other":
            return to_result(await decode(client, answer.payloads, object) if answer.payloads else "")


@dataclass
class _Link:
    """What one history has of tool calls."""

    client: Client
    workflow_id: str
    previous: str | None = None
    """The run id of the link before it."""
    _asked: dict[int, CallPlace | _Place] = field(default_factory=dict)
    _models: dict[int, Sequence[Payload]] = field(default_factory=dict)
    _replies: list[tuple[Sequence[Payload], Sequence[Payload]]] = field(default_factory=list)
    _answers: dict[CallPlace | _Place, _Answer] = field(default_factory=dict)
    _prepared: set[_Place] = field(default_factory=set)
    """The calls that are runs of other agents: what an activity has answered there is how these begin."""

    async def read(self, run_id: str) -> None:
        handle = self.client.get_workflow_handle(self.workflow_id, run_id=run_id)
        async for event in handle.fetch_history_events():
            match event.event_type:
                case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
                    self.previous = event.workflow_execution_started_event_attributes.continued_execution_run_id
                case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
                    await self._scheduled(event)
                case EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
                    self._completed(event)
                case EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
                    initiated = event.start_child_workflow_execution_initiated_event_attributes
                    if place := self._place_of(initiated.workflow_id):
                        self._prepared.add(place)
                case EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED:
                    self._child_completed(event)

    async def answers(self) -> dict[CallPlace, _Answer]:
        """By call. Those of others' activities and of children have no call id of their own: the model's reply has."""
        unnamed = {place for place in self._answers if isinstance(place, _Place)}
        names = {place: name for place, name in await self._called() if place in unnamed} if unnamed else {}
        return {
            place if isinstance(place, CallPlace) else names[place]: answer
            for place, answer in self._answers.items()
            if place in names or (isinstance(place, CallPlace) and not self._is_prepared(place))
        }

    async def _scheduled(self, event: HistoryEvent) -> None:
        scheduled = event.activity_task_scheduled_event_attributes
        kind = scheduled.activity_type.name
        if kind == activities.RUN_TOOL or kind.startswith(activities.TOOL_PREFIX):
            request = (await decode(self.client, scheduled.input.payloads, _Asks)).request
            self._asked[event.event_id] = CallPlace(request.iteration, request.index, request.call_id, request.name)
        elif kind == activities.CALL_MODEL:
            self._models[event.event_id] = scheduled.input.payloads
        elif found := _PLACE.fullmatch(scheduled.activity_id):
            self._asked[event.event_id] = _Place(int(found[1]), int(found[2]))

    def _completed(self, event: HistoryEvent) -> None:
        completed = event.activity_task_completed_event_attributes
        asked, payloads = completed.scheduled_event_id, completed.result.payloads
        if place := self._asked.get(asked):
            self._answers[place] = _Answer("tool" if isinstance(place, CallPlace) else "other", payloads)
        elif model := self._models.get(asked):
            self._replies.append((model, payloads))

    def _child_completed(self, event: HistoryEvent) -> None:
        child = event.child_workflow_execution_completed_event_attributes
        if place := self._place_of(child.workflow_execution.workflow_id):
            is_agent = child.workflow_type.name == names.WORKFLOW
            self._answers[place] = _Answer("agent" if is_agent else "other", child.result.payloads)

    def _place_of(self, child: str) -> _Place | None:
        """The call that has started the child workflow; None for one that no call has started."""
        if not child.startswith(f"{self.workflow_id}/"):
            return None
        found = _PLACE.fullmatch(child.removeprefix(self.workflow_id))
        return _Place(int(found[1]), int(found[2])) if found else None

    def _is_prepared(self, place: CallPlace) -> bool:
        return _Place(place.iteration, place.index) in self._prepared

    async def _called(self) -> list[tuple[_Place, CallPlace]]:
        """The calls of all replies of the model."""
        called: list[tuple[_Place, CallPlace]] = []
        for input, reply in self._replies:
            iteration = (await decode(self.client, input, _Iteration)).iteration
            calls = (await decode(self.client, reply, ModelReply)).message.tool_calls
            called += [
                (_Place(iteration, index), CallPlace(iteration, index, call.id, call.name))
                for index, call in enumerate(calls)
            ]
        return called
