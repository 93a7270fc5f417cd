"""Exports a run's whole record as JSON, one object per line (`perdure docs fork`)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python
from temporalio.client import WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from .._version import __version__
from ..agents import Model
from ..conversation import Operation
from ..history.calls import CallOutcome, CallReader, ModelCall, failure_data, steering_in
from ..history.chain import Chain, ending_of
from ..history.events import Times, seconds, time_of
from ..history.link import RecordedLink
from ..json_types import JsonObject
from ..messages import ToolResult
from ..protocol.outcome import RunFailure, RunOutput
from ..protocol.search_attributes import ORIGIN
from ..redaction import redactor
from ..tool_results import STORED
from ..tools.results import to_result
from ..trace.replay import NOT_REPLAYED
from ..workflows.agent_run import AgentRun
from .fork import fork_origin
from .reading.log import replay


def model_call(call: ModelCall, model: Model) -> JsonObject:
    """Return the line for one attempt of a model call."""
    reply = call.reply
    return {
        "iteration": call.iteration,
        "try": call.number,
        "settings": {
            "provider": model.provider_key,
            "model": model.id,
            "apiType": model.api_type,
            "options": as_json(model.options) if model.options else {},
            "withTools": call.with_tools,
        },
        "steering": steering_in(call.operations),
        "operations": operations_of(call.operations),
        "messages": call.messages,
        "reply": as_json(reply) if reply else None,
        "failure": call.failure,
        **asdict(call.times),
    }


def tool_call(called: CallOutcome) -> JsonObject:
    """Return the line for one of the model's tool calls."""
    execution, result, shown = called.execution, called.result, called.shown_to_model
    run = execution.run if execution else None
    is_shown_whole = result is not None and shown is not None and _same(result, shown)
    return {
        "iteration": called.iteration,
        "index": called.index,
        "id": called.call.id,
        "name": called.call.name,
        "asked": called.call.arguments,
        "arguments": execution.arguments if execution else None,
        "by": execution.by if execution else None,
        "status": shown.status if shown else result.status if result else "running",
        "result": as_json(result) if result else None,
        **({} if is_shown_whole else {"told": as_json(shown) if shown else None}),
        "childRun": {"id": run[0], "firstRunId": run[1]} if run else None,
        "executions": execution.count if execution else 0,
        **asdict(execution.times if execution else Times()),
    }


def _same(result: ToolResult, shown: ToolResult) -> bool:
    return (result.parts, result.status) == (shown.parts, shown.status)


def operations_of(operations: Sequence[Operation]) -> list[JsonObject]:
    """Return the changes of a conversation as JSON."""
    return [as_json(operation) for operation in operations]


def as_json(value: BaseModel) -> Any:
    """Return the value as JSON, with the field names that files use and without absent fields."""
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


VERSION = 1
"""The format's version. Readers ignore kinds and fields that they do not know; a new number means
that they can't."""

_STATUS = {
    WorkflowExecutionStatus.RUNNING: "running",
    WorkflowExecutionStatus.COMPLETED: "done",
    WorkflowExecutionStatus.FAILED: "failed",
    WorkflowExecutionStatus.CANCELED: "cancelled",
    WorkflowExecutionStatus.TERMINATED: "terminated",
    WorkflowExecutionStatus.TIMED_OUT: "timed_out",
}


async def export_lines(
    chain: Chain, *, children: bool, events: bool
) -> AsyncGenerator[JsonObject, None]:
    """Yield the lines of a run, and of the runs that it called. Raises `RPCError` when there is no
    such run.
    """
    await chain.describe()
    yield {"kind": "export", "version": VERSION, "perdure": __version__, "run": chain.workflow_id}
    async for line in _Export(chain, children=children, events=events).lines():
        yield line


def _offers(link: RecordedLink) -> JsonObject:
    inventory = link.inventory
    return {
        "tools": [as_json(spec) for spec in (inventory.tools if inventory else [])],
        "offered": [as_json(tool) for tool in (inventory.offered if inventory else [])],
    }


class _Export:
    """Writes one run, with one link of it in memory at a time."""

    def __init__(self, chain: Chain, *, children: bool, events: bool) -> None:
        self._chain = chain
        self._children = children
        self._events = events
        self._calls = CallReader(chain.client, chain.workflow_id, partial(to_result, limits=STORED))
        self._models = [Model()]
        self._redactor = redactor()
        self._last_seq = 0

    async def lines(self) -> AsyncIterator[JsonObject]:
        described = await self._chain.describe()
        link, is_first = None, True
        async for link in self._chain.links():
            carried = link.input.carried
            self._redactor = redactor(link.input.agent)
            self._models = link.input.agent.models
            if is_first:
                is_first = False
                self._last_seq = carried.last_seq if carried else 0
                yield self._line("run", await self._about(described, link))
            elif carried and carried.is_handoff:
                yield self._line("agent", {"path": link.input.handed_to, **_offers(link)})
            async for call in self._calls.read(link):
                async for line in self._call(call):
                    yield line
            if link.next_run_id is None:
                break
            if self._events:
                for line in self._event_lines(await self._replay(link)):
                    yield line
        if link is not None:
            # The run may have ended meanwhile.
            async for line in self._end(await self._chain.describe(), link):
                yield line

    def _line(self, kind: str, data: JsonObject) -> JsonObject:
        return self._redactor.value({"kind": kind, "run": self._chain.workflow_id, **data})

    async def _about(
        self, described: WorkflowExecutionDescription, link: RecordedLink
    ) -> JsonObject:
        input, fork = link.input, await fork_origin(described)
        started = (
            link.input.carried.loop.started_at
            if link.input.carried
            else seconds(time_of(link.history[0]))
        )
        attributes = {
            pair.key.name: to_jsonable_python(pair.value)
            for pair in described.typed_search_attributes
        }
        return {
            "firstRunId": await self._chain.origin(),
            "status": _STATUS.get(described.status) if described.status else None,
            "started": started,
            "ended": described.close_time.timestamp() if described.close_time else None,
            "taskQueue": described.task_queue,
            "agent": as_json(input.agent),
            "agents": {path: as_json(agent) for path, agent in input.agents.items()},
            "handoffs": {
                path: list(map(as_json, messages)) for path, messages in input.handoffs.items()
            },
            "options": as_json(input.options),
            "given": input.given,
            "inputs": input.inputs,
            "deps": input.deps,
            "messages": [as_json(message) for message in link.initial_conversation.messages],
            **_offers(link),
            "searchAttributes": attributes,
            "origin": attributes.get(ORIGIN.name),
            "forkOf": as_json(fork) if fork else None,
            "parent": as_json(input.lineage) if input.lineage else None,
            "from": input.carried.loop.iteration + 1 if input.carried else 1,
        }

    async def _call(self, call: ModelCall | CallOutcome) -> AsyncIterator[JsonObject]:
        if isinstance(call, ModelCall):
            yield self._line(
                "model_call", model_call(call, call.model or self._models[call.fallback])
            )
            return
        yield self._line("tool_call", tool_call(call))
        execution = call.execution
        if self._children and execution and execution.by == "agent" and execution.run:
            async for line in self._child(*execution.run):
                yield line

    async def _child(self, id: str, first_run_id: str) -> AsyncIterator[JsonObject]:
        chain = Chain(self._chain.client, id, first_run_id or None)
        try:
            async for line in _Export(chain, children=True, events=self._events).lines():
                yield line
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            yield {
                "kind": "missing",
                "run": id,
                "message": f"the run can't be read (any more): {error.message}",
            }

    async def _replay(self, link: RecordedLink) -> AgentRun | str:
        """Return the workflow replayed to the end of the link, or the reason why that fails."""
        try:
            return await replay(
                self._chain.workflow_id, link.history, self._chain.client.data_converter
            )
        except NOT_REPLAYED as error:
            return f"events can't be read: {error}"

    def _event_lines(self, run: AgentRun | str) -> list[JsonObject]:
        """Return the events of a link."""
        if isinstance(run, str):
            return [self._line("note", {"message": run})]
        lines, more = [], True
        while more:
            page = run.events(self._last_seq)
            for event in page.events:
                self._last_seq = event.seq
                data = event.model_dump(
                    mode="json", include={"seq", "type", "iteration", "time", "data"}
                )
                lines.append(self._line("event", {**data, "callId": event.call_id}))
            more = page.more
        return lines if self._events else []

    async def _end(
        self, described: WorkflowExecutionDescription, link: RecordedLink
    ) -> AsyncIterator[JsonObject]:
        ending = (
            await ending_of(self._chain.client, link.closing_event) if link.closing_event else None
        )
        run = await self._replay(link)
        for call in await self._calls.end(self._last_operations(ending, run)):
            async for line in self._call(call):
                yield line
        for line in self._event_lines(run):
            yield line
        end: JsonObject = {"status": _STATUS.get(described.status) if described.status else None}
        end["operations"] = operations_of(self._calls.take_news())
        if isinstance(run, AgentRun):
            status = run.status()
            end |= {
                "iteration": status.iteration,
                "modelCalls": status.model_calls,
                "usage": as_json(status.usage),
            }
            end["cost"] = status.cost_usd
            if link.is_open:
                end["status"] = status.status
        yield self._line("end", {**end, **await self._ended_with(ending, link)})

    async def _ended_with(
        self, ending: RunOutput | RunFailure | None, link: RecordedLink
    ) -> JsonObject:
        if isinstance(ending, RunOutput):
            result = {"output": ending.output, "isIncomplete": ending.is_incomplete}
            return {"result": {**result, "unreadSteering": ending.unread_steering}}
        if ending is None or link.closing_event is None:
            return {}
        failure = link.closing_event.workflow_execution_failed_event_attributes.failure
        said = await failure_data(self._chain.client, failure)
        return {
            "failure": {"kind": ending.kind, "message": said["message"], "reason": ending.reason}
        }

    def _last_operations(
        self, ending: RunOutput | RunFailure | None, run: AgentRun | str
    ) -> Sequence[Operation]:
        version = self._calls.version
        if ending is not None and ending.tail is not None:
            return ending.tail.operations[max(0, version - ending.tail.base) :]
        return run.operations_since(version) if isinstance(run, AgentRun) else []
