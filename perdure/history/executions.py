"""How the tool calls of one reply were executed: by activities, local ones, child workflows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from ..messages import Message, ToolCall, ToolResult
from ..protocol import activities, names
from ..protocol.outcome import RunOutput
from ..tool_calls import PreparedRun, ToolRequest
from .called import Called, Execution, Times, seconds
from .decode import decode
from .inventory import LOCAL_ACTIVITY

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
                self._told.append(ToolResult.model_validate({"parts": message.parts, "status": status}))

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
