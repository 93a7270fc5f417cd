"""What a run did, iteration by iteration, as `perdure show` gives it."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, Field

from ...messages import Usage
from .told import ToldMessage

ToolOutcome = Literal["success", "error", "timeout", "cancelled", "denied", "open"]


class CalledRun(BaseModel):
    """A run that a tool call has started."""

    id: str
    iterations: int | None = None
    """None as long as it has no result, as the next one."""
    usage: Usage | None = None
    cost_usd: float | None = None


class ToolSurvey(BaseModel):
    """One tool call, and what became of it."""

    call_id: str
    name: str
    arguments: Any
    """With which it was executed, or, for a call that was not, those of the model; its text, if that is no JSON."""
    outcome: ToolOutcome
    seconds: float | None = None
    """Of its execution; None where the history does not say."""
    attempts: int = 0
    """How often it was begun: lost workers and retries count."""
    never_executed: bool = Field(default=False, exclude_if=operator.not_)
    """Whether no worker has begun with it, because none had it."""
    outcome_unknown: bool = Field(default=False, exclude_if=operator.not_)
    """Whether the call may have taken effect although it has failed."""
    waited: float = Field(default=0.0, exclude_if=operator.not_)
    """Seconds, for a person."""
    decision: dict[str, Any] | None = Field(default=None, exclude_if=operator.not_)
    """What the person has decided: the data of the event `permission_completed`."""
    run: CalledRun | None = Field(default=None, exclude_if=operator.not_)


class IterationSurvey(BaseModel):
    """One iteration: the model's call, and the tools that it has asked for."""

    iteration: int
    model: str | None = None
    started: float | None = None
    """Seconds since the epoch."""
    seconds: float | None = None
    """From the first try to the last one's end; None while the call is under way."""
    usage: Usage | None = None
    cost_usd: float | None = None
    finish_reason: str | None = None
    tries: int = 0
    """How often the model was called."""
    lost: int = 0
    """How many further attempts there were, because workers were lost."""
    failures: list[str] = []
    """Why there was another try, or no reply."""
    steering: list[str] = []
    """The messages that it has read."""
    trimmed: int = 0
    """How many messages were taken from the model's view before the call."""
    tools: list[ToolSurvey] = []


@dataclass
class Survey:
    """What the histories of a run's links say."""

    links: int = 0
    first_kept: int = 1
    """The first iteration that the namespace still has."""
    started: float = 0.0
    """Seconds since the epoch."""
    waits: list[tuple[float, float]] = field(default_factory=list)
    """When persons were waited for, in seconds since the epoch; those that have ended."""
    iterations: list[IterationSurvey] = field(default_factory=list)
    told: list[ToldMessage] = field(default_factory=list)
    unreplayed: int = 0
    """How many links have decisions of persons that this version can't read."""

    def waited(self, open_since: Iterable[float], now: float) -> float:
        """Seconds in which a person was waited for, once where several were; `open_since` are the waits that go on."""
        total, reached = 0.0, 0.0
        for since, until in sorted([*self.waits, *((each, now) for each in open_since)]):
            total += max(0.0, until - max(since, reached))
            reached = max(reached, until)
        return total
