"""Runs in the form of Octopus's programs: its answers, and its chat events as server-sent
events.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, Literal, NamedTuple, cast

from ..client import RunHandle
from ..client.callers import AnswerText
from ..events import TERMINAL_EVENTS, RunEvent
from ..json_types import JsonObject
from ..protocol.outcome import RunResult

EventName = Literal["turn_start", "tool_call", "tool_result", "token", "turn_end"]


class AgentResponse(NamedTuple):
    """The result of Octopus's loop, with its names."""

    Content: str
    IsIncomplete: bool = False


def agent_response(result: RunResult[Any]) -> AgentResponse:
    """Return a run's result in Octopus's form: an answer that is not a text, as JSON."""
    output = result.output
    text = (
        output if isinstance(output, str) else json.dumps(output, ensure_ascii=False, default=str)
    )
    return AgentResponse(text, result.is_incomplete)


class OctopusEvent(NamedTuple):
    """One event of a turn."""

    event: EventName
    data: JsonObject


PREAMBLE_CHARS = 400
"""Characters of text before a tool call that may stay hidden."""


def sse_frame(event: OctopusEvent) -> str:
    """Return the event as one server-sent event, which ends with an empty line."""
    data = json.dumps(event.data, ensure_ascii=False, separators=(",", ":"))
    return f"event: {event.event}\ndata: {data}\n\n"


async def octopus_events(
    run: RunHandle[Any],
    *,
    agent_id: str | None = None,
    held_back: int | None = PREAMBLE_CHARS,
    events: AsyncIterator[RunEvent] | None = None,
) -> AsyncGenerator[OctopusEvent, None]:
    """Yield the events of a run with Octopus's names, live, from `turn_start` to `turn_end`.

    The run is the turn, and the `agent_id` is by default its agent's name. The `token` events are
    the answer, in one piece unless the run streams (`RunOptions.stream`). The first `held_back`
    characters of a text appear only when more text, or the end, shows that it is the answer; None
    holds back all text until the end. `events` are those of the run, from its beginning, if other
    code reads them.

    After `turn_end`, raises the errors of `RunHandle.result` for a run that ended without a result.
    """
    turn = _Turn(
        run.id, await run.agent_name() if agent_id is None else agent_id, AnswerText(held_back)
    )
    yield turn.start()
    last = ""
    async with aclosing(cast(AsyncGenerator[RunEvent, None], events or run.stream())) as read:
        async for event in read:
            for shown in turn.after(event):
                yield shown
            last = event.type
    if last != "done":
        await run.result()


class _Turn:
    """The state of one run while its events are read."""

    def __init__(self, turn_id: str, agent_id: str, answer: AnswerText) -> None:
        self._turn_id = turn_id
        self._agent_id = agent_id
        self._answer = answer
        self._began: float | None = None
        self._tokens = 0
        self._called: defaultdict[tuple[int, str | None], deque[float]] = defaultdict(deque)
        """Start times of unfinished calls, by iteration and id."""

    def start(self) -> OctopusEvent:
        return OctopusEvent("turn_start", {"turn_id": self._turn_id, "agent_id": self._agent_id})

    def after(self, event: RunEvent) -> list[OctopusEvent]:
        """Return the Octopus events that follow from this event of the run."""
        if self._began is None and event.time:
            self._began = event.time
        shown: list[OctopusEvent] = []
        if text := self._answer.more(event):
            shown.append(OctopusEvent("token", {"text": text}))
        if event.type == "tool_call_start":
            self._called[event.iteration, event.call_id].append(event.time)
            shown.append(
                OctopusEvent(
                    "tool_call", {"tool_name": event.data["name"], "tool_call_id": event.call_id}
                )
            )
        elif event.type == "tool_result":
            began = self._called[event.iteration, event.call_id].popleft()
            elapsed = _milliseconds(began, event.time)
            shown.append(
                OctopusEvent("tool_result", {"tool_call_id": event.call_id, "elapsed_ms": elapsed})
            )
        elif event.type == "llm_complete":
            self._tokens += event.data["usage"]["total_tokens"]
        elif event.type in TERMINAL_EVENTS:
            shown.append(self._end(event))
        return shown

    def _end(self, event: RunEvent) -> OctopusEvent:
        elapsed = _milliseconds(self._began or event.time, event.time)
        data = {"turn_id": self._turn_id, "total_tokens": self._tokens, "elapsed_ms": elapsed}
        return OctopusEvent("turn_end", data)


def _milliseconds(since: float, until: float) -> int:
    return round((until - since) * 1000)
