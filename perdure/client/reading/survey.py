"""Summarises a run, iteration by iteration, in one pass over the histories of its links."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from pydantic import BaseModel

from ...conversation import Trim
from ...events import TERMINAL_EVENTS, RunEvent
from ...history.calls import CallOutcome, CallReader, ModelCall, steering_in
from ...history.chain import Chain, closing_tail
from ...history.events import decode, seconds, time_of
from ...history.link import RecordedLink
from ...json_types import JsonObject
from ...messages import Usage, unless_empty
from ...protocol.outcome import RunOutput
from ...tool_results import STORED
from ...tools.results import to_result
from ...trace.replay import NOT_REPLAYED
from .log import replay

ToolOutcome = Literal["success", "error", "timeout", "cancelled", "denied", "open"]


class CalledRun(BaseModel):
    """A run that a tool call has started."""

    id: str
    iterations: int | None = None
    """None before its result, like `usage`."""
    usage: Usage | None = None
    cost_usd: float | None = None


class ToolSurvey(BaseModel):
    """One tool call, and its outcome."""

    call_id: str
    name: str
    arguments: Any
    """The executed arguments or, for a call without an execution, the model's; text that is not
    JSON."""
    outcome: ToolOutcome
    seconds: float | None = None
    """The duration of its execution; None if the history lacks it."""
    attempts: int = 0
    """The number of executions, with retries and those on lost workers."""
    refusals: int = unless_empty(0)
    """The number of refusals by workers that lacked something."""
    never_executed: bool = unless_empty(False)
    """Whether no worker has begun it, because all lacked it."""
    outcome_unknown: bool = unless_empty(False)
    """Whether the call may have taken effect although it has failed."""
    waited: float = unless_empty(0.0)
    """Seconds of waiting for a person."""
    decision: JsonObject | None = unless_empty(None)
    """The person's decision: the data of the event `permission_completed`."""
    run: CalledRun | None = unless_empty(None)


class IterationSurvey(BaseModel):
    """One iteration: the model call, and its tool calls."""

    iteration: int
    agent: str = ""
    """The name of the agent."""
    model: str | None = None
    started: float | None = None
    """Seconds since the epoch."""
    seconds: float | None = None
    """From the first try to the end of the last; None while the call is open."""
    usage: Usage | None = None
    cost_usd: float | None = None
    finish_reason: str | None = None
    tries: int = 0
    """The number of model calls."""
    lost: int = 0
    """The number of further attempts after lost workers."""
    held: float = unless_empty(0.0)
    """The seconds of holds in it."""
    failures: list[str] = []
    """The errors of tries without a reply."""
    steering: list[str] = []
    """The messages that it has read."""
    trimmed: int = 0
    """The number of messages trimmed before the call."""
    tools: list[ToolSurvey] = []


@dataclass
class Survey:
    """The summary of a run."""

    links: int = 0
    first_kept: int = 1
    """The first iteration that the namespace still has."""
    started: float = 0.0
    """Seconds since the epoch."""
    waits: list[tuple[float, float]] = field(default_factory=list)
    """The ended waits for persons and holds, as start and end in seconds since the epoch."""
    iterations: list[IterationSurvey] = field(default_factory=list)
    unreplayed: int = 0
    """The number of links whose decisions this version can't read."""

    def seconds_waited(self, open_since: Iterable[float], now: float) -> float:
        """Return the seconds of all waits, overlapping ones once; `open_since` has the starts of
        open ones.
        """
        total, reached = 0.0, 0.0
        for since, until in sorted([*self.waits, *((each, now) for each in open_since)]):
            total += max(0.0, until - max(since, reached))
            reached = max(reached, until)
        return total


async def survey(chain: Chain) -> Survey:
    """Read every link once. Raises `RPCError` when there is no such run, and `ConfigurationError`
    like `read_link`.
    """
    reader = _Reader(chain)
    async for link in chain.links():
        await reader.read(link)
    return await reader.end()


class _Reader:
    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._calls = CallReader(chain.client, chain.workflow_id, partial(to_result, limits=STORED))
        self._iterations: dict[int, IterationSurvey] = {}
        self._last: RecordedLink | None = None
        self._survey = Survey()
        self._persons = _Persons()

    async def read(self, link: RecordedLink) -> None:
        """Take the next link."""
        carried = link.input.carried
        if self._last is None:
            self._survey.started = (
                carried.loop.started_at if carried else seconds(time_of(link.history[0])) or 0.0
            )
            self._survey.first_kept = carried.loop.iteration + 1 if carried else 1
        self._survey.links = (carried.links if carried else 0) + 1
        self._last = link
        async for call in self._calls.read(link):
            await self._add_call(call)
        if (
            link.work.updates
            or link.work.signals
            or any(timer.state == "fired" for timer in link.work.timers)
        ):
            # Without any of these, no call was decided by a person or a deadline.
            await self._take_decisions(link)

    async def end(self) -> Survey:
        """Return the summary."""
        assert self._last is not None
        tail = await closing_tail(self._chain.client, self._last)
        for call in await self._calls.end(
            tail.operations[max(0, self._calls.version - tail.base) :] if tail else []
        ):
            await self._add_call(call)
        self._persons.assign_decisions(self._iterations)
        self._survey.waits = self._persons.waits
        self._survey.iterations = list(self._iterations.values())
        return self._survey

    async def _add_call(self, call: ModelCall | CallOutcome) -> None:
        if isinstance(call, CallOutcome):
            self._iterations[call.iteration].tools.append(await _tool(self._chain, call))
            return
        known = self._iterations.setdefault(
            call.iteration, IterationSurvey(iteration=call.iteration)
        )
        known.agent = self._last.input.agent.name if self._last else ""
        known.steering += steering_in(call.operations)
        known.trimmed += sum(each.drop for each in call.operations if isinstance(each, Trim))
        _count(known, call)

    async def _take_decisions(self, link: RecordedLink) -> None:
        chain = self._chain
        try:
            run = await replay(chain.workflow_id, link.history, chain.client.data_converter)
        except NOT_REPLAYED:
            # Another version's history: the conversation has the decisions, without their times.
            self._survey.unreplayed += 1
            return
        more = True
        while more:
            page = run.events(self._persons.seq)
            for event in page.events:
                self._persons.take(event)
            more = page.more


class _Persons:
    """Questions to people, their decisions, and the holds of the run."""

    def __init__(self) -> None:
        self.seq = 0
        """The last event read."""
        self.waits: list[tuple[float, float]] = []
        """Start and end, in seconds since the epoch."""
        self._asked: dict[tuple[int, str | None], float] = {}
        self._decided: dict[tuple[int, str | None], tuple[float, RunEvent]] = {}
        self._held: RunEvent | None = None
        self._seconds_held: defaultdict[int, float] = defaultdict(float)
        """By iteration."""

    def take(self, event: RunEvent) -> None:
        """Read the next event."""
        self.seq, place = event.seq, (event.iteration, event.call_id)
        if event.type == "permission_requested":
            self._asked[place] = event.time
        elif event.type == "permission_completed":
            since = self._asked.pop(place, event.time)
            self.waits.append((since, event.time))
            self._decided[place] = (event.time - since, event)
        elif event.type == "held":
            self._held = self._held or event
        elif self._held and event.type in ("went_on", *TERMINAL_EVENTS):
            self.waits.append((self._held.time, event.time))
            self._seconds_held[self._held.iteration] += event.time - self._held.time
            self._held = None

    def assign_decisions(self, iterations: dict[int, IterationSurvey]) -> None:
        """Add the decisions and holds to the iterations."""
        for each in iterations.values():
            each.held = self._seconds_held[each.iteration]
            for tool in each.tools:
                if found := self._decided.get((each.iteration, tool.call_id)):
                    tool.waited, tool.decision = found[0], found[1].data
                    tool.outcome = tool.outcome if found[1].data["approved"] else "denied"


def _count(known: IterationSurvey, call: ModelCall) -> None:
    """Add one try of the model's call."""
    known.tries = call.number
    known.lost += max(call.times.attempts - 1, 0)
    known.started = known.started or call.times.scheduled
    if call.failure is not None:
        known.failures.append(f"{call.failure['kind']}: {call.failure['message']}")
    if call.times.ended is not None and known.started is not None:
        known.seconds = call.times.ended - known.started
    if reply := call.reply:
        known.model, known.usage, known.finish_reason = (
            reply.model,
            reply.usage,
            reply.finish_reason,
        )
        known.cost_usd = reply.cost_usd


async def _tool(chain: Chain, called: CallOutcome) -> ToolSurvey:
    execution, times = called.execution, called.execution.times if called.execution else None
    tool = ToolSurvey(
        call_id=called.call.id,
        name=called.call.name,
        arguments=_read(called.call.arguments),
        outcome=_outcome(called),
    )
    if execution is None or times is None:
        return tool
    if execution.arguments is not None:
        tool.arguments = execution.arguments
    if times.scheduled is not None and times.ended is not None:
        tool.seconds = times.ended - times.scheduled
    tool.never_executed = execution.refused
    is_unknown = execution.outcome_unknown or (
        called.result is not None and called.result.outcome_unknown
    )
    tool.outcome_unknown = is_unknown and tool.outcome not in ("success", "open")
    tool.attempts = 0 if execution.refused else max(times.attempts + execution.count - 1, 0)
    tool.refusals = times.refusals
    if execution.run is not None:
        tool.run = CalledRun(id=execution.run[0])
        if execution.by == "agent" and execution.payloads is not None:
            output = await decode(chain.client, execution.payloads, RunOutput)
            tool.run.iterations, tool.run.usage, tool.run.cost_usd = (
                output.iterations,
                output.usage,
                output.cost_usd,
            )
    return tool


def _read(arguments: str) -> Any:
    """Return the model's arguments; text that is not JSON as it is."""
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def _outcome(called: CallOutcome) -> ToolOutcome:
    result = called.shown_to_model or called.result
    if result is None:
        return "open"
    return "denied" if result.is_denied else result.status
