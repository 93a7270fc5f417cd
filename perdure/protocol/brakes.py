"""The brakes of a namespace: which runs make no further call until somebody lets them go on.

All of them are one record: a workflow that nobody executes, whose signals are its lines. So a line is written by one
request, which also begins the record, and a worker that waits for the next event learns of it at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..messages import Exchanged, unless_empty
from ..text import count_of

RECORD = "perdure-brakes"
"""The record's workflow id, and its task queue, which nobody polls."""
RECORD_TYPE = "perdure.Brakes"
PAUSE = "pause"
"""A signal to the record, whose argument is a `Brake`."""
RELEASE = "release"
"""A signal to the record, whose argument is a `Release`."""
BRAKE_ON_RUN = "perdure.brake_on_run"
"""The local activity that reads the record anew: it returns the `Brake` on the run that asks, or None."""
PAUSED = "Paused"
"""Error type of an activity that has not begun, because a brake is on its run. The details are a `PausedAttempt`."""
PATCH = "perdure-braked-call-{}"
"""The patch by which a run records that a brake may be on this one of its calls that no activity begins."""
MAX_RUNS = 10_000
"""As many runs one brake names by their ids."""


class RunFacts(Exchanged):
    """What decides whether a brake is on a run."""

    id: str
    agent: str
    tenant: str | None
    task_queue: str


class Scope(Exchanged):
    """Which runs a brake is on: those to which everything applies that is set; with nothing set, all."""

    agent: str | None = unless_empty(None)
    tenant: str | None = unless_empty(None)
    task_queue: str | None = unless_empty(None)
    runs: list[str] = unless_empty([])
    """By their ids; the runs that they call, and the turns of a session of that id, are meant too."""

    def covers(self, run: RunFacts) -> bool:
        """Return whether it is one of these runs."""
        pairs = ((self.agent, run.agent), (self.tenant, run.tenant), (self.task_queue, run.task_queue))
        if any(wanted is not None and wanted != value for wanted, value in pairs):
            return False
        return not self.runs or is_among(run.id, self.runs)

    def __str__(self) -> str:
        named = {"agent": self.agent, "tenant": self.tenant, "task queue": self.task_queue}
        parts = [f"{name} {value!r}" for name, value in named.items() if value is not None]
        if self.runs:
            parts.append(f"run {self.runs[0]!r}" if len(self.runs) == 1 else count_of(len(self.runs), "run"))
        return ", ".join(parts) or "all runs"


def is_among(id: str, ids: Sequence[str]) -> bool:
    """Return whether the run has one of these ids, or was called by such a run, or is a turn of such a session."""
    parts = id.split("/")
    return not {"/".join(parts[: end + 1]) for end in range(len(parts))}.isdisjoint(ids)


class Brake(Exchanged):
    """A line of the record: these runs make no further model call and no further tool call."""

    id: str
    scope: Scope
    by: str | None = unless_empty(None)
    """Who has paused them, as far as they said."""
    reason: str = unless_empty("")
    since: float = 0.0
    """Seconds since the epoch, by the server's clock; readers find this out."""
    released: list[str] = unless_empty([])
    """The runs of the scope that may go on all the same; readers find this out."""

    def is_on(self, run: RunFacts) -> bool:
        """Return whether it keeps this run from making a call."""
        return self.scope.covers(run) and not (self.released and is_among(run.id, self.released))

    def __str__(self) -> str:
        by = f" by {self.by}" if self.by else ""
        return f"{self.scope} paused{by}{f': {self.reason}' if self.reason else ''}"


class Release(Exchanged):
    """A line of the record: brakes that hold no longer, or not for some runs."""

    brakes: list[str]
    """By their ids."""
    runs: list[str] = unless_empty([])
    """Only these may go on; [] for all of the brakes' scopes."""
    by: str | None = unless_empty(None)


class Brakes:
    """What the lines of the record amount to."""

    def __init__(self) -> None:
        self.in_force: dict[str, Brake] = {}
        """By id, the oldest first."""

    def take(self, line: Brake | Release, time: float) -> None:
        """Add a line, which the server has taken at that time."""
        if isinstance(line, Brake):
            self.in_force[line.id] = line.model_copy(update={"since": time, "released": []})
            return
        for id in line.brakes:
            if (brake := self.in_force.get(id)) is None:
                continue
            released = [*brake.released, *line.runs]
            is_empty = bool(brake.scope.runs) and set(brake.scope.runs) <= set(released)
            if not line.runs or is_empty:
                del self.in_force[id]
            else:
                self.in_force[id] = brake.model_copy(update={"released": released})

    def snapshot(self) -> Brakes:
        """Return what they amount to now: lines that are added later do not change it."""
        taken = Brakes()
        taken.in_force = dict(self.in_force)
        return taken

    def on(self, run: RunFacts) -> Brake | None:
        """Return the oldest brake on the run; None for a run that may go on."""
        return next((brake for brake in self.in_force.values() if brake.is_on(run)), None)


class PausedAttempt(Exchanged):
    """The details of an attempt of an activity that a brake has kept from beginning."""

    brake: Brake
    attempt: int
    """Which attempt of the activity it was."""
    told: Any = None
    """What the attempt before has told with its last heartbeat."""
