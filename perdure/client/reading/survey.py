"""Puts together what a run did, iteration by iteration, in one pass over the histories of its links."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.workflow import NondeterminismError

from ...events import RunEvent
from ...history.called import Called, ModelCall, seconds
from ...history.calls import CallReader
from ...history.chain import Chain, closing_tail
from ...history.decode import decode
from ...history.link import RecordedLink
from ...history.rounds import end_of_round, steering_in
from ...operations import Operation, Trim
from ...protocol.outcome import RunOutput
from ...result_sizes import STORED
from ...tools.results import to_result
from .replay import replay
from .surveyed import CalledRun, IterationSurvey, Survey, ToolOutcome, ToolSurvey
from .told import Told

_BY_PERSONS = frozenset(
    {
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED,
        EventType.EVENT_TYPE_TIMER_FIRED,
    }
)
"""A link without any of these has no call that a person, or a deadline, has decided about."""


async def survey(chain: Chain) -> Survey:
    """Read every link once. Raises `RPCError` when there is no such run, and `ConfigurationError` like `read_link`."""
    reader = _Reader(chain)
    async for link in chain.links():
        await reader.read(link)
    return await reader.end()


class _Reader:
    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._calls = CallReader(chain.client, chain.workflow_id, partial(to_result, limits=STORED))
        self._iterations: dict[int, IterationSurvey] = {}
        self._told: Told | None = None
        self._last: RecordedLink | None = None
        self._survey = Survey()
        self._persons = _Persons()

    async def read(self, link: RecordedLink) -> None:
        """Take the next link."""
        carried = link.input.carried
        if self._told is None:
            self._told = Told(link.begun.messages)
            self._survey.started = carried.loop.started_at if carried else seconds(link.history[0].event_time) or 0.0
            self._survey.first_kept = carried.loop.iteration + 1 if carried else 1
        self._survey.links = (carried.links if carried else 0) + 1
        self._last = link
        async for call in self._calls.read(link):
            await self._take(call)
        if any(event.event_type in _BY_PERSONS for event in link.history):
            await self._take_decisions(link)

    async def end(self) -> Survey:
        """What all links amount to."""
        assert self._last is not None
        tail = await closing_tail(self._chain.client, self._last)
        for call in await self._calls.end(tail.operations[max(0, self._calls.version - tail.base) :] if tail else []):
            await self._take(call)
        self._tell(self._calls.take_news(), max(self._iterations, default=0) + 1)
        self._persons.tell(self._iterations)
        self._survey.waits = self._persons.waits
        self._survey.iterations = list(self._iterations.values())
        self._survey.told = self._told.messages if self._told else []
        return self._survey

    async def _take(self, call: ModelCall | Called) -> None:
        if isinstance(call, Called):
            self._iterations[call.iteration].tools.append(await _tool(self._chain, call))
            return
        self._tell(call.operations, call.iteration)
        known = self._iterations.setdefault(call.iteration, IterationSurvey(iteration=call.iteration))
        known.steering += steering_in(call.operations)
        known.trimmed += sum(each.drop for each in call.operations if isinstance(each, Trim))
        _count(known, call)

    def _tell(self, operations: Sequence[Operation], iteration: int) -> None:
        """What was said before the model call of that iteration, and since the one before it."""
        assert self._told is not None
        end = end_of_round(operations)
        self._told.follow(operations[:end], iteration - 1)
        self._told.follow(operations[end:], iteration)

    async def _take_decisions(self, link: RecordedLink) -> None:
        chain = self._chain
        try:
            run = await replay(chain.workflow_id, link.history, chain.client.data_converter)
        except (NondeterminismError, ValueError):
            # Another version has made this history: what was decided is in the conversation, but not when.
            self._survey.unreplayed += 1
            return
        more = True
        while more:
            page = run.events(self._persons.seq)
            for event in page.events:
                self._persons.take(event)
            more = page.more


class _Persons:
    """What persons were asked, and what they have decided."""

    def __init__(self) -> None:
        self.seq = 0
        """Of the last event that was looked at."""
        self.waits: list[tuple[float, float]] = []
        """From when to when, in seconds since the epoch."""
        self._asked: dict[tuple[int, str | None], float] = {}
        self._decided: dict[tuple[int, str | None], tuple[float, RunEvent]] = {}

    def take(self, event: RunEvent) -> None:
        """Look at the next event."""
        self.seq, place = event.seq, (event.iteration, event.call_id)
        if event.type == "permission_requested":
            self._asked[place] = event.time
        elif event.type == "permission_completed":
            since = self._asked.pop(place, event.time)
            self.waits.append((since, event.time))
            self._decided[place] = (event.time - since, event)

    def tell(self, iterations: dict[int, IterationSurvey]) -> None:
        """Put it where it belongs."""
        for each in iterations.values():
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
        known.model, known.usage, known.finish_reason = reply.model, reply.usage, reply.finish_reason
        known.cost_usd = reply.cost_usd


async def _tool(chain: Chain, called: Called) -> ToolSurvey:
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
    is_unknown = execution.outcome_unknown or (called.result is not None and called.result.outcome_unknown)
    tool.outcome_unknown = is_unknown and tool.outcome not in ("success", "open")
    tool.attempts = 0 if execution.refused else times.attempts + execution.count - 1
    if execution.run is not None:
        tool.run = CalledRun(id=execution.run[0])
        if execution.by == "agent" and execution.payloads is not None:
            output = await decode(chain.client, execution.payloads, RunOutput)
            tool.run.iterations, tool.run.usage, tool.run.cost_usd = output.iterations, output.usage, output.cost_usd
    return tool


def _read(arguments: str) -> Any:
    """The arguments that the model wrote; its text, where that is no JSON."""
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def _outcome(called: Called) -> ToolOutcome:
    result = called.told or called.result
    if result is None:
        return "open"
    if called.execution is None and result.text.startswith("Tool denied"):
        return "denied"
    return result.status
