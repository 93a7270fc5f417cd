"""An exported run (`perdure docs fork`), and the answers to tool calls from it: each result
once.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from ..agents import Agent, others_of, with_others
from ..arguments import parse_tool_arguments
from ..declared_tools import Tool
from ..errors import ConfigurationError, ToolArgumentError
from ..json_types import JsonObject, JsonView
from ..loop.model_calls import NO_NATIVE_TOOLS
from ..messages import Message, ModelReply, ToolCall, ToolResult, Usage
from ..protocol.run import RecordedOptions
from ..tool_calls import Approval, ToolSpec

VERSION = 1
_TOOLS: TypeAdapter[list[Tool]] = TypeAdapter(list[Tool])
_SPECS = TypeAdapter(list[ToolSpec])
_AGENTS = TypeAdapter(dict[str, Agent])
_HANDOFFS = TypeAdapter(dict[str, list[Message]])


@dataclass
class RecordedReply:
    """One reply of the model, with the duration of its call."""

    iteration: int
    reply: ModelReply
    seconds: float = 0.0

    @property
    def cost(self) -> float | None:
        """Return the cost in US dollars; None if unknown."""
        return self.reply.cost_usd


@dataclass
class RecordedCall:
    """One tool call of the model, and its result."""

    iteration: int
    call: ToolCall
    told: ToolResult


@dataclass
class Recording:
    """The contents of a run's export, without the runs that it called."""

    id: str
    agent: Agent
    """The recorded agent; `offered` completes it."""
    options: RecordedOptions
    inputs: JsonObject
    messages: list[Message]
    """The conversation at the beginning of the run."""
    tools: list[ToolSpec] = field(default_factory=list)
    offered: list[Tool] = field(default_factory=list)
    handoffs: dict[str, list[Message]] = field(default_factory=dict)
    """Instructions of the agents that the run may hand over to, by path."""
    handed: dict[str, tuple[list[ToolSpec], list[Tool]]] = field(default_factory=dict)
    """Path of an agent that the run was handed over to → its `tools` and its `offered`."""
    given: frozenset[str] = frozenset()
    """Options that a handoff leaves unchanged."""
    deps: Any = None
    replies: list[RecordedReply] = field(default_factory=list)
    calls: list[RecordedCall] = field(default_factory=list)
    steering: dict[int, list[str]] = field(default_factory=dict)
    """Iteration → messages read before its model call."""
    lost_native_tools: bool = False
    """Whether the provider refused tools, and the run continued without native ones
    (`tool_protocol: auto`)."""
    decisions: dict[tuple[int, str], Approval] = field(default_factory=dict)
    """Iteration and call id → a person's decision."""
    status: str = ""
    output: Any = None
    failure: JsonObject | None = None
    """Kind and text of the error, for a failed or ended run."""

    @property
    def has_ended(self) -> bool:
        return self.status not in ("", "running", "waiting_for_approval", "held")

    def as_agent(self, path: str) -> Recording:
        """Return the recording as that of the agent at this path, to which the run may be handed
        over.
        """
        others = others_of(self.agent)
        tools, offered = self.handed.get(path, ([], []))
        return replace(self, agent=with_others(others[path], others), tools=tools, offered=offered)

    @property
    def usage(self) -> Usage:
        """Return the usage of the run's own model calls."""
        return sum((each.reply.usage for each in self.replies), Usage())


def read_recording(file: str | PathLike[str]) -> Recording:
    """Return the run in a file written by `perdure export`. Raises ConfigurationError for any other
    file.
    """
    path = Path(file)
    try:
        with path.open(encoding="utf-8") as lines:
            return recording_of(_parse_lines(lines), fspath(path))
    except OSError as error:
        raise ConfigurationError(f"{fspath(path)!r} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{fspath(path)!r} is not an export of a run: {error}") from error


def _parse_lines(lines: Iterable[str]) -> Iterator[Any]:
    for line in lines:
        if line.strip():
            yield json.loads(line)


def recording_of(lines: Iterable[Any], source: str) -> Recording:
    """Return the run of these lines, in order. Raises ConfigurationError, which names the `source`,
    for other lines.
    """
    recording: Recording | None = None
    steering: defaultdict[int, list[str]] = defaultdict(list)
    first = 1
    try:
        for line in lines:
            if line["kind"] == "export":
                _require_version(line, source)
            elif recording is None and line["kind"] == "run":
                recording, first = _new_recording(line), int(line.get("from") or 1)
            elif recording is not None and line.get("run") == recording.id:
                _add_line(
                    {**line, "iteration": line.get("iteration", 0) - first + 1}, recording, steering
                )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigurationError(
            f"{source!r} is not an export of a run, as `perdure export` writes it: {error}"
        ) from error
    if recording is None:
        raise ConfigurationError(
            f"{source!r} is not an export of a run: it has no line of the kind 'run'"
        )
    if not recording.status:
        raise ConfigurationError(
            f"{source!r} is cut off, for it has no line of the kind 'end': export the run again"
        )
    recording.steering = dict(steering)
    return recording


def _require_version(line: JsonView, source: str) -> None:
    if line["version"] != VERSION:
        raise ConfigurationError(
            f"{source!r} is an export of version {line['version']!r}, and this perdure reads "
            f"version {VERSION}"
        )


def _new_recording(line: JsonView) -> Recording:
    return Recording(
        id=line["run"],
        agent=with_others(
            Agent.model_validate(line["agent"]), _AGENTS.validate_python(line.get("agents") or {})
        ),
        options=RecordedOptions.model_validate(line["options"]),
        inputs=line["inputs"],
        deps=line.get("deps"),
        messages=[Message.model_validate(message) for message in line["messages"]],
        tools=_SPECS.validate_python(line["tools"]),
        offered=_TOOLS.validate_python(line["offered"]),
        handoffs=_HANDOFFS.validate_python(line.get("handoffs") or {}),
        given=frozenset(line.get("given") or ()),
    )


def _add_line(
    line: JsonObject, recording: Recording, steering: defaultdict[int, list[str]]
) -> None:
    match line["kind"]:
        case "agent":
            offered = _SPECS.validate_python(line["tools"]), _TOOLS.validate_python(line["offered"])
            recording.handed[line["path"]] = offered
        case "model_call":
            steering[line["iteration"]] += line.get("steering") or []
            if line.get("reply"):
                reply = ModelReply.model_validate(line["reply"])
                taken = max(0.0, (line.get("ended") or 0.0) - (line.get("scheduled") or 0.0))
                recording.replies.append(RecordedReply(line["iteration"], reply, taken))
        case "tool_call":
            if told := line.get("told") or line.get("result"):
                call = ToolCall(id=line["id"], name=line["name"], arguments=line["asked"])
                recording.calls.append(
                    RecordedCall(line["iteration"], call, ToolResult.model_validate(told))
                )
        case "event" if line.get("type") == "status":
            recording.lost_native_tools |= str(line["data"].get("message")).startswith(
                NO_NATIVE_TOOLS
            )
        case "event" if line.get("type") == "permission_completed":
            known = {name: line["data"].get(name) for name in Approval.model_fields}
            recording.decisions[line["iteration"], line["callId"]] = Approval.model_validate(known)
        case "end":
            recording.status = line["status"]
            recording.output = (line.get("result") or {}).get("output")
            recording.failure = line.get("failure") or _ended_from_outside(line["status"])


def _ended_from_outside(status: str) -> JsonObject | None:
    if status not in ("cancelled", "terminated", "timed_out"):
        return None
    return {"kind": status, "message": f"the run was {status.replace('_', ' ')}"}


Key = tuple[str, str]


def call_key(call: ToolCall) -> Key:
    """Return a key that is equal for equivalent calls: of one tool, with arguments that mean the
    same JSON.

    Ignores the order of the arguments, the spelling of numbers, and null arguments.
    """
    try:
        arguments = parse_tool_arguments(call.arguments)
    except ToolArgumentError:
        return call.name, call.arguments.strip()
    given = {name: _plain(value) for name, value in arguments.items() if value is not None}
    return call.name, json.dumps(given, sort_keys=True, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(child) for name, child in value.items()}
    if isinstance(value, list):
        return [_plain(child) for child in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


class Diverged(AssertionError):
    """The model makes a tool call without a recorded result."""

    def __init__(self, iteration: int, calls: Sequence[ToolCall]) -> None:
        self.iteration = iteration
        self.calls = list(calls)
        shown = ", ".join(f"{call.name}({call.arguments})" for call in calls)
        super().__init__(
            f"iteration {iteration} asks for {shown}, which the record has no (further) result of"
        )


class Answers:
    """The recorded calls that the rerun has not made yet."""

    def __init__(self, recorded: Sequence[RecordedCall]) -> None:
        self._recorded = list(recorded)
        self._keys = [call_key(each.call) for each in recorded]
        self._used: set[int] = set()
        self.reached = 0
        """The last recorded iteration that has answered a call."""
        self.skipped: list[RecordedCall] = []
        """Recorded calls that the rerun had not made when it made one of a later iteration."""

    @property
    def used(self) -> int:
        """Return the number of recorded calls made."""
        return len(self._used)

    @property
    def left(self) -> list[RecordedCall]:
        """Return the recorded calls not yet made, in order."""
        return [each for number, each in enumerate(self._recorded) if number not in self._used]

    def claim(self, iteration: int, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Return the results of the calls of one reply; their order does not matter.

        Raises Diverged, and takes nothing, if the record lacks a result for one of them.
        """
        taken: dict[int, int] = {}
        for place, call in enumerate(calls):
            number = self._next(call, set(taken.values()))
            if number is not None:
                taken[place] = number
        if unmatched := [call for place, call in enumerate(calls) if place not in taken]:
            raise Diverged(iteration, unmatched)
        self._used |= set(taken.values())
        self.reached = max(
            [self.reached, *(self._recorded[number].iteration for number in taken.values())]
        )
        behind = [each for each in self.left if each.iteration < self.reached]
        self.skipped += [each for each in behind if each not in self.skipped]
        return [self._recorded[taken[place]].told for place in range(len(calls))]

    def _next(self, call: ToolCall, taken: set[int]) -> int | None:
        key = call_key(call)
        free = (
            n
            for n, known in enumerate(self._keys)
            if known == key and n not in self._used and n not in taken
        )
        return next(free, None)
