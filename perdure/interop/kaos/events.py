"""A run as the events of KAOS's memory, in their order."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from typing import Any

from temporalio.client import Client

from ...client import RunHandle
from ...client.reading.results import run_not_found
from ...conversation import Append
from ...events import RunEvent
from ...history.chain import Chain
from ...history.link import read_input
from ...json_types import JsonObject, JsonView
from ...messages import Message
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
    """One event, in KAOS's terms."""

    event_id: str
    """`event_` and 8 hexadecimal digits; the same whenever the event is read."""
    timestamp: datetime
    event_type: str
    content: Any
    metadata: JsonObject = field(default_factory=dict)
    """`run_id`, and `trace_id` and `span_id` of the run's OpenTelemetry trace."""

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
        """Return the event in the JSON of `to_dict`. Raises KeyError and ValueError for anything
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
class _Happened:
    """An event that has no id yet."""

    type: str
    content: Any
    time: float
    span: int


def _before(input: RunInput) -> int:
    """Return how many messages there were before this link of the run: those of other runs, or of
    removed links.
    """
    found = input.carried.conversation if input.carried else input.beginning
    if found is None:
        return len(input.messages) if input.carried else 0
    return found.ends[-1] if found.ends else len(found.messages)


def _happened(seen: Sequence[RunEvent], input: RunInput, ids: TraceIds) -> Iterator[_Happened]:
    """Yield the events of a run, in order."""
    opened = [] if input.carried else input.messages
    for message in opened if seen else ():
        if type := _type_of(message):
            yield _Happened(type, message.text, seen[0].time, ids.agent)
    appended, before = 0, _before(input) + len(opened)
    calls: dict[tuple[int, str | None], tuple[str, int]] = {}
    indices: Counter[int] = Counter()
    failed: set[tuple[int, str | None]] = set()
    for event in seen:
        for message in _appended(event):
            appended += 1
            if appended > before and (type := _type_of(message)):
                yield _Happened(type, message.text, event.time, ids.agent)
        call = (event.iteration, event.call_id)
        match event.type:
            case "tool_call_start":
                span = ids.tool(event.iteration, indices[event.iteration])
                indices[event.iteration] += 1
                calls[call] = event.data["name"], span
                yield _call(event, span)
            case "error":
                failed.add(call)
            case "tool_result" if call in calls:
                is_failure = call in failed or "isCancelled" in event.data
                yield _result(event, *calls[call], is_failure=is_failure)
            case "failed" | "cancelled":
                reason = event.data.get("message", "the run was cancelled")
                text = f"Error processing message: {reason}"
                yield _Happened("error", text, event.time, ids.agent)


def _appended(event: RunEvent) -> list[Message]:
    return [
        message
        for operation in event.operations
        if isinstance(operation, Append)
        for message in operation.messages
    ]


def _type_of(message: Message) -> str:
    """Return the type of the message's event; "" for instructions, calls and results."""
    if message.role == "user":
        return "task_delegation_received" if message.is_delegated else "user_message"
    if message.role == "assistant" and not message.tool_calls:
        return "agent_response" if message.text else "format_warning"
    return ""


def _call(event: RunEvent, span: int) -> _Happened:
    name, arguments = event.data["name"], _read_arguments(event.data["arguments"])
    if name.startswith(DELEGATE):
        task = arguments.get(TASK) if isinstance(arguments, Mapping) else arguments
        content = {"agent": name.removeprefix(DELEGATE), "task": task}
        return _Happened("delegation_request", content, event.time, span)
    return _Happened("tool_call", {"tool": name, "arguments": arguments}, event.time, span)


def _result(event: RunEvent, name: str, span: int, *, is_failure: bool) -> _Happened:
    text = event.data["result"]
    if name.startswith(DELEGATE):
        type, key = (
            ("delegation_error", "error") if is_failure else ("delegation_response", "response")
        )
        content = {"agent": name.removeprefix(DELEGATE), key: text}
    else:
        type, key = ("tool_error", "error") if is_failure else ("tool_result", "result")
        content = {"tool": name, key: text}
    return _Happened(type, content, event.time, span)


def _with_id(run_id: str, happened: _Happened, numbers: Counter[str], ids: TraceIds) -> MemoryEvent:
    """Return the event with its id, a digest of its content and of how often the run had the same
    content before.
    """
    what = json.dumps([run_id, happened.type, happened.content], sort_keys=True, default=str)
    numbers[what] += 1
    digest = blake2b(
        f"{what}{numbers[what]}".encode(errors="surrogatepass"), digest_size=4
    ).hexdigest()
    metadata: JsonObject = {
        "run_id": run_id,
        "trace_id": f"{ids.trace_id:032x}",
        "span_id": f"{happened.span:016x}",
    }
    time = datetime.fromtimestamp(happened.time, UTC)
    return MemoryEvent(f"event_{digest}", time, happened.type, happened.content, metadata)


def _read_arguments(arguments: str) -> Any:
    """Return the arguments as a value, or as the model wrote them."""
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments


async def run_events(
    client: Client, run_id: str, first_run_id: str | None = None
) -> list[MemoryEvent]:
    """Return the events of one run, open or closed, by KAOS's names; `first_run_id` distinguishes
    it from a later one of that id.

    Raises `RunNotFound` when there is no such run, or its history is not kept any more.
    """
    seen = await RunHandle(client, run_id, origin=first_run_id).events()
    chain = Chain(client, run_id, first_run_id)
    with run_not_found(chain):  # also where the retention period removes it between two questions
        input = await chain.at_first_kept(partial(read_input, client, run_id))
        origin = await chain.origin()
    caller = input.lineage.trace if input.lineage else ""
    ids = TraceIds.of(client.namespace, run_id, origin, caller)
    numbers: Counter[str] = Counter()
    return [_with_id(run_id, each, numbers, ids) for each in _happened(seen, input, ids)]
