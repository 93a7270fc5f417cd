"""The pauses of a namespace: the runs that are paused before their next call.

All pauses live in one record: a workflow that is never executed, whose signals are its lines. One
request therefore writes a line, and also begins the record; a worker that waits for the next event
sees the line at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..messages import Exchanged, unless_empty
from ..text import count_of

RECORD = "perdure-pauses"
"""The record's workflow id, and its task queue, which no worker polls."""
RECORD_TYPE = "perdure.Pauses"
PAUSE = "pause"
"""A signal to the record, whose argument is a `Pause`."""
RELEASE = "release"
"""A signal to the record, whose argument is a `Release`."""
PAUSE_ON_RUN = "perdure.pause_on_run"
"""The local activity that rereads the record: it returns the `Pause` on the calling run, or
None."""
PAUSED = "Paused"
"""Error type of an activity that was not begun because a pause is on its run. The details are a
`PausedAttempt`."""
PATCH = "perdure-paused-call-{}"
"""The patch by which a run records that it checks for a pause before this call, which is not an
activity's."""
MAX_RUNS = 10_000
"""The number of run ids that one pause may name."""


class RunFacts(Exchanged):
    """The facts about a run that a pause's scope is compared with."""

    id: str
    agent: str
    tenant: str | None
    task_queue: str


class Scope(Exchanged):
    """The runs that a pause is on: those that match every field that is set; all runs if none
    is.
    """

    agent: str | None = unless_empty(None)
    tenant: str | None = unless_empty(None)
    task_queue: str | None = unless_empty(None)
    runs: list[str] = unless_empty([])
    """Run ids; these include the runs that they call, and the turns of a session with such an
    id."""

    def covers(self, run: RunFacts) -> bool:
        """Return whether the scope includes the run."""
        pairs = (
            (self.agent, run.agent),
            (self.tenant, run.tenant),
            (self.task_queue, run.task_queue),
        )
        if any(wanted is not None and wanted != value for wanted, value in pairs):
            return False
        return not self.runs or is_among(run.id, self.runs)

    def __str__(self) -> str:
        named = {"agent": self.agent, "tenant": self.tenant, "task queue": self.task_queue}
        parts = [f"{name} {value!r}" for name, value in named.items() if value is not None]
        if self.runs:
            parts.append(
                f"run {self.runs[0]!r}" if len(self.runs) == 1 else count_of(len(self.runs), "run")
            )
        return ", ".join(parts) or "all runs"


def is_among(id: str, ids: Sequence[str]) -> bool:
    """Return whether the run has one of these ids, was called by such a run, or is a turn of such a
    session.
    """
    parts = id.split("/")
    return not {"/".join(parts[: end + 1]) for end in range(len(parts))}.isdisjoint(ids)


class Pause(Exchanged):
    """A line of the record: these runs make no further model calls and no further tool calls."""

    id: str
    scope: Scope
    by: str | None = unless_empty(None)
    """The person who paused them, if given."""
    reason: str = unless_empty("")
    since: float = 0.0
    """Seconds since the epoch, by the server's clock; set by readers."""
    released: list[str] = unless_empty([])
    """The runs of the scope that are released; set by readers."""

    def is_on(self, run: RunFacts) -> bool:
        """Return whether the pause keeps this run from making calls."""
        return self.scope.covers(run) and not (self.released and is_among(run.id, self.released))

    def __str__(self) -> str:
        by = f" by {self.by}" if self.by else ""
        return f"{self.scope} paused{by}{f': {self.reason}' if self.reason else ''}"


class Release(Exchanged):
    """A line of the record that releases pauses, for all their runs or for some."""

    pauses: list[str]
    """Pause ids."""
    runs: list[str] = unless_empty([])
    """The runs that are released; [] for all of the pauses' scopes."""
    by: str | None = unless_empty(None)


class Pauses:
    """The pauses that the lines of the record put in force."""

    def __init__(self) -> None:
        self.in_force: dict[str, Pause] = {}
        """By id, oldest first."""

    def take(self, line: Pause | Release, time: float) -> None:
        """Apply a line, which the server received at that time."""
        if isinstance(line, Pause):
            self.in_force[line.id] = line.model_copy(update={"since": time, "released": []})
            return
        for id in line.pauses:
            if (pause := self.in_force.get(id)) is None:
                continue
            released = [*pause.released, *line.runs]
            is_empty = bool(pause.scope.runs) and set(pause.scope.runs) <= set(released)
            if not line.runs or is_empty:
                del self.in_force[id]
            else:
                self.in_force[id] = pause.model_copy(update={"released": released})

    def snapshot(self) -> Pauses:
        """Return a copy that later lines do not change."""
        taken = Pauses()
        taken.in_force = dict(self.in_force)
        return taken

    def on(self, run: RunFacts) -> Pause | None:
        """Return the oldest pause on the run; None for a run that may go on."""
        return next((pause for pause in self.in_force.values() if pause.is_on(run)), None)


class PausedAttempt(Exchanged):
    """The details of an activity attempt that a pause refused."""

    pause: Pause
    attempt: int
    """The attempt of the activity."""
    told: Any = None
    """The last heartbeat details of the attempt before."""
