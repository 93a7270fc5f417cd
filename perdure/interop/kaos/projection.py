"""What was said in a run, as the events that KAOS's memory would have of it, in its order."""

from __future__ import annotations

import json
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from ...child_agents import DELEGATE, TASK
from ...messages import Message, ToolCall
from .event import MemoryEvent
from .said import RunMemory, Said


@dataclass(frozen=True)
class _Happened:
    """An event that has no id yet."""

    type: str
    content: Any
    time: float
    span: int | None = None


@dataclass
class _Times:
    """When the calls of tools began and ended, in the order of their events."""

    began: defaultdict[str, deque[float]] = field(default_factory=lambda: defaultdict(deque))
    ended: defaultdict[str, deque[float]] = field(default_factory=lambda: defaultdict(deque))

    @classmethod
    def of(cls, run: RunMemory) -> _Times:
        times = cls()
        for event in run.seen:
            if event.call_id is not None and event.type == "tool_call_start":
                times.began[event.call_id].append(event.time)
            elif event.call_id is not None and event.type == "tool_result":
                times.ended[event.call_id].append(event.time)
        return times

    @staticmethod
    def next(times: Mapping[str, deque[float]], call_id: str, otherwise: float) -> float:
        return times[call_id].popleft() if times[call_id] else otherwise


def events_of(run: RunMemory) -> list[MemoryEvent]:
    """The run's events, in order: what it was told, its calls each with its result, its answer, and its failure."""
    happened = [*_of_messages(run, _Times.of(run)), *_under_way(run), *_failure(run)]
    numbers: Counter[str] = Counter()
    return [_numbered(run, each, numbers) for each in happened]


def _of_messages(run: RunMemory, times: _Times) -> Iterator[_Happened]:
    said = deque(run.said)
    while said:
        each = said.popleft()
        message, agent = each.message, run.ids.agent if run.ids else None
        if message.role == "user":
            type = "task_delegation_received" if message.is_delegated else "user_message"
            yield _Happened(type, message.text, each.time, agent)
        elif message.role == "assistant" and message.tool_calls:
            results = [said.popleft() for _ in message.tool_calls if said and said[0].message.role == "tool"]
            yield from _round(run, each, results, times)
        elif message.role == "assistant":
            yield _Happened("agent_response" if message.text else "format_warning", message.text, each.time, agent)


def _round(run: RunMemory, asked: Said, results: list[Said], times: _Times) -> Iterator[_Happened]:
    """Each call with its result."""
    for index, call in enumerate(asked.message.tool_calls):
        span = run.ids.tool(asked.iteration, index) if run.ids and asked.iteration else None
        yield _called(call, times.next(times.began, call.id, asked.time), span)
        if index < len(results):
            answered = results[index]
            yield _answered(call, answered.message, times.next(times.ended, call.id, answered.time), span)


def _called(call: ToolCall, time: float, span: int | None) -> _Happened:
    arguments = _read(call.arguments)
    if call.name.startswith(DELEGATE):
        task = arguments.get(TASK) if isinstance(arguments, Mapping) else arguments
        return _Happened("delegation_request", {"agent": call.name.removeprefix(DELEGATE), "task": task}, time, span)
    return _Happened("tool_call", {"tool": call.name, "arguments": arguments}, time, span)


def _answered(call: ToolCall, message: Message, time: float, span: int | None) -> _Happened:
    is_failure = message.metadata.get("status", "success") != "success"
    if call.name.startswith(DELEGATE):
        type, key = ("delegation_error", "error") if is_failure else ("delegation_response", "response")
        return _Happened(type, {"agent": call.name.removeprefix(DELEGATE), key: message.text}, time, span)
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
            yield _called(call, event.time, None)
        elif event.type == "tool_result" and event.call_id in calls:
            yield _answered(calls[event.call_id], Message(role="tool", parts=event.data["result"]), event.time, None)


def _failure(run: RunMemory) -> Iterator[_Happened]:
    if run.failure:
        text = f"Error processing message: {run.failure}"
        yield _Happened("error", text, run.until, run.ids.agent if run.ids else None)


def _numbered(run: RunMemory, happened: _Happened, numbers: Counter[str]) -> MemoryEvent:
    """The event with its id, which follows from what it says, and from how often that was said in this run before."""
    what = json.dumps([run.run_id, happened.type, happened.content], sort_keys=True, default=str)
    numbers[what] += 1
    digest = blake2b(f"{what}{numbers[what]}".encode(errors="surrogatepass"), digest_size=4).hexdigest()
    metadata: dict[str, Any] = {"run_id": run.run_id}
    if run.ids is not None:
        metadata["trace_id"] = f"{run.ids.trace_id:032x}"
        if happened.span is not None:
            metadata["span_id"] = f"{happened.span:016x}"
    time = datetime.fromtimestamp(happened.time, UTC)
    return MemoryEvent(f"event_{digest}", time, happened.type, happened.content, metadata)


def _read(arguments: str) -> Any:
    """The arguments as a value, or as the model wrote them."""
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
