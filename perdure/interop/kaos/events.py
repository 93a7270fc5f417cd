"""What was said in a run, as the events that KAOS's memory would have of it, in its order."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from typing import Any

from temporalio.client import Client, WorkflowExecutionStatus

from ...client import RunHandle
from ...client.reading.results import run_not_found
from ...conversation import Append
from ...events import RunEvent
from ...history.chain import Chain
from ...history.link import read_input
from ...json_types import JsonObject, JsonView
from ...messages import Message, ToolCall
from ...protocol.run import RunInput
from ...settings.child_agents import DELEGATE, TASK
from ...trace_ids import TraceIds

EVENT_TYPES = (
    "user_message",
    "task_delegation_received",
    "tool_call",
    "tool_result",
    "tool_error",
    "delegation_request",
    "delegation_response",
    "delegation_error",
    "agent_response",
    "format_warning",
    "error",
)
"""The types that a session's own events have. Those that `add_event` adds may have any."""


@dataclass
class MemoryEvent:
    """One event, by KAOS's names."""

    event_id: str
    """`event_` and 8 hexadecimal digits; the same whenever the event is read."""
    timestamp: datetime
    event_type: str
    content: Any
    metadata: JsonObject = field(default_factory=dict)
    """`run_id`, and `trace_id` and `span_id` where they are known: those of the run's OpenTelemetry
    trace."""

    def to_dict(self) -> JsonObject:
        """Return the event as JSON, its time as ISO 8601."""
        return {
            "event_id": self.event_id,
            "timestamp": self.timestamp.isoformat(),
            "event_type": self.event_type,
            "content": self.content,
            "metadata": self.metadata,
        }

    @classmethod
    def from_dict(cls, data: JsonView) -> MemoryEvent:
        """Return the event that `to_dict` has written. Raises KeyError and ValueError for anything
        else.
        """
        return cls(
            data["event_id"],
            datetime.fromisoformat(data["timestamp"]),
            data["event_type"],
            data["content"],
            dict(data["metadata"]),
        )


@dataclass(frozen=True)
class TimedMessage:
    """One message, when it came into the conversation, and in which iteration; 0 where that is not
    known.
    """

    message: Message
    time: float
    iteration: int = 0


@dataclass(frozen=True)
class RunMemory:
    """What is known of one run."""

    run_id: str
    said: Sequence[TimedMessage]
    """The messages that it was opened with, and those that it has added."""
    seen: Sequence[RunEvent] = ()
    """Its events; none for a run whose history is not kept any more."""
    ids: TraceIds | None = None
    failure: str = ""
    """How it has ended, unless it is done or under way."""
    until: float = 0.0
    """When it has ended, in seconds since the epoch."""


def said_in(input: RunInput, events: Sequence[RunEvent], since: float) -> list[TimedMessage]:
    """Return the messages that the run was opened with, at `since`, and those that it has added, by
    its events.
    """
    appended = [
        TimedMessage(message, event.time, event.iteration)
        for event in events
        for operation in event.operations
        if isinstance(operation, Append)
        for message in operation.messages
    ]
    opened = [] if input.carried else [TimedMessage(message, since) for message in input.messages]
    return opened + appended[_before(input) + len(opened) :]


def _before(input: RunInput) -> int:
    """Return how many messages there were before this link of the run: those of other runs, or of
    links that are gone.
    """
    found = input.carried.conversation if input.carried else input.beginning
    if found is None:
        return len(input.messages) if input.carried else 0
    return found.ends[-1] if found.ends else len(found.messages)


@dataclass(frozen=True)
class _Happened:
    """An event that has no id yet."""

    type: str
    content: Any
    time: float
    span: int | None = None


Times = Mapping[tuple[str, int, str | None], float]
"""When calls of tools began and ended, by event type, iteration and call."""


def _times(run: RunMemory) -> Times:
    return {
        (event.type, event.iteration, event.call_id): event.time
        for event in run.seen
        if event.type in ("tool_call_start", "tool_result")
    }


def events_of(run: RunMemory) -> list[MemoryEvent]:
    """Run's events, in order: what it was told, its calls each with its result, its answer, and its
    failure.
    """
    happened = [*_of_messages(run, _times(run)), *_under_way(run), *_failure(run)]
    numbers: Counter[str] = Counter()
    return [_with_id(run, each, numbers) for each in happened]


def _of_messages(run: RunMemory, times: Times) -> Iterator[_Happened]:
    said = deque(run.said)
    while said:
        each = said.popleft()
        message, agent = each.message, run.ids.agent if run.ids else None
        if message.role == "user":
            type = "task_delegation_received" if message.is_delegated else "user_message"
            yield _Happened(type, message.text, each.time, agent)
        elif message.role == "assistant" and message.tool_calls:
            results = [
                said.popleft()
                for _ in message.tool_calls
                if said and said[0].message.role == "tool"
            ]
            yield from _round(run, each, results, times)
        elif message.role == "assistant":
            yield _Happened(
                "agent_response" if message.text else "format_warning",
                message.text,
                each.time,
                agent,
            )


def _round(
    run: RunMemory, asked: TimedMessage, results: list[TimedMessage], times: Times
) -> Iterator[_Happened]:
    """Each call with its result."""
    for index, call in enumerate(asked.message.tool_calls):
        span = run.ids.tool(asked.iteration, index) if run.ids and asked.iteration else None
        began = times.get(("tool_call_start", asked.iteration, call.id), asked.time)
        yield _call_event(call, began, span)
        if index < len(results):
            answered = results[index]
            ended = times.get(("tool_result", asked.iteration, call.id), answered.time)
            yield _result_event(call, answered.message, ended, span)


def _call_event(call: ToolCall, time: float, span: int | None) -> _Happened:
    arguments = _read_arguments(call.arguments)
    if call.name.startswith(DELEGATE):
        task = arguments.get(TASK) if isinstance(arguments, Mapping) else arguments
        return _Happened(
            "delegation_request",
            {"agent": call.name.removeprefix(DELEGATE), "task": task},
            time,
            span,
        )
    return _Happened("tool_call", {"tool": call.name, "arguments": arguments}, time, span)


def _result_event(call: ToolCall, message: Message, time: float, span: int | None) -> _Happened:
    is_failure = message.metadata.get("status", "success") != "success"
    if call.name.startswith(DELEGATE):
        type, key = (
            ("delegation_error", "error") if is_failure else ("delegation_response", "response")
        )
        return _Happened(
            type, {"agent": call.name.removeprefix(DELEGATE), key: message.text}, time, span
        )
    type, key = ("tool_error", "error") if is_failure else ("tool_result", "result")
    return _Happened(type, {"tool": call.name, key: message.text}, time, span)


def _under_way(run: RunMemory) -> Iterator[_Happened]:
    """The calls of a round that is not over: its messages come at its end."""
    last = max((each.iteration for each in run.said), default=0)
    calls: dict[str, ToolCall] = {}
    for event in run.seen:
        if event.iteration <= last or event.call_id is None:
            continue
        if event.type == "tool_call_start":
            call = calls[event.call_id] = ToolCall(id=event.call_id, **event.data)
            yield _call_event(call, event.time, None)
        elif event.type == "tool_result" and event.call_id in calls:
            yield _result_event(
                calls[event.call_id],
                Message(role="tool", parts=event.data["result"]),
                event.time,
                None,
            )


def _failure(run: RunMemory) -> Iterator[_Happened]:
    if run.failure:
        text = f"Error processing message: {run.failure}"
        yield _Happened("error", text, run.until, run.ids.agent if run.ids else None)


def _with_id(run: RunMemory, happened: _Happened, numbers: Counter[str]) -> MemoryEvent:
    """Event with its id, which follows from what it says, and from how often that was said in this
    run before.
    """
    what = json.dumps([run.run_id, happened.type, happened.content], sort_keys=True, default=str)
    numbers[what] += 1
    digest = blake2b(
        f"{what}{numbers[what]}".encode(errors="surrogatepass"), digest_size=4
    ).hexdigest()
    metadata: JsonObject = {"run_id": run.run_id}
    if run.ids is not None:
        metadata["trace_id"] = f"{run.ids.trace_id:032x}"
        if happened.span is not None:
            metadata["span_id"] = f"{happened.span:016x}"
    time = datetime.fromtimestamp(happened.time, UTC)
    return MemoryEvent(f"event_{digest}", time, happened.type, happened.content, metadata)


def _read_arguments(arguments: str) -> Any:
    """Return the arguments as a value, or as the model wrote them."""
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments


_CUT_OFF = {
    WorkflowExecutionStatus.TERMINATED: "the run was terminated",
    WorkflowExecutionStatus.TIMED_OUT: "the run timed out",
}


async def run_events(
    client: Client, run_id: str, first_run_id: str | None = None
) -> list[MemoryEvent]:
    """Events of one run, open or closed, by KAOS's names; `first_run_id` tells it from a later one
    of that id.

    Raises `RunNotFound` when there is no such run, or its history is not kept any more.
    """
    return events_of(await read_run(client, run_id, first_run_id))


async def read_run(client: Client, run_id: str, first_run_id: str | None = None) -> RunMemory:
    """Return what is kept of the run. Raises as `run_events` does."""
    seen = await RunHandle(client, run_id, origin=first_run_id).events()
    chain = Chain(client, run_id, first_run_id)
    with run_not_found(chain):  # also where the retention period removes it between two questions
        described = await chain.describe()
        input = await chain.at_first_kept(partial(read_input, client, run_id))
        origin = await chain.origin()
    since = seen[0].time if seen else described.start_time.timestamp()
    caller = input.lineage.trace if input.lineage else ""
    return RunMemory(
        run_id,
        said_in(input, seen, since),
        seen,
        TraceIds.of(client.namespace, run_id, origin, caller),
        _failure_of_run(seen)
        or _CUT_OFF.get(described.status or WorkflowExecutionStatus.RUNNING, ""),
        described.close_time.timestamp() if described.close_time else since,
    )


def _failure_of_run(seen: Sequence[RunEvent]) -> str:
    match seen[-1:]:
        case [RunEvent(type="failed", data=data)]:
            return str(data["message"])
        case [RunEvent(type="cancelled")]:
            return "the run was cancelled"
    return ""
