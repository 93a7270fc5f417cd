"""What the model of the server records: events, and the state of one workflow execution."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from temporalio.api.common.v1 import Payload

CLOSING = ("completed", "failed", "canceled", "continued_as_new", "terminated")
"""The kinds of the last event of an execution."""
ENDS_OF_STEPS = ("activity_", "child_completed", "child_failed", "child_canceled")


@dataclass(slots=True)
class Event:
    """One event of a history. Its kind is Temporal's name in short, such as `task_started`."""

    id: int
    kind: str
    time: float
    ref: int = 0
    """The event that this one follows: what scheduled, started or initiated it."""
    body: Any = None
    task: int = 0
    """The completed workflow task whose command made this event; 0 for all others."""


@dataclass(slots=True)
class Start:
    """What starts an execution, or its next link."""

    type: str
    input: list[Payload]
    task_queue: str = "queue"
    task_timeout: float = 10.0
    memo: dict[str, Payload] = field(default_factory=dict)
    attributes: Any = None
    """Search attributes, as the command or the client sent them."""
    first_run_id: str = ""
    continued_run_id: str = ""
    parent: tuple[str, str] | None = None
    """The id and the run id of the workflow that called this one."""
    parent_event: int = 0
    summary: Any = None


@dataclass(slots=True)
class Task:
    """The workflow task that is scheduled or has started."""

    attempt: int = 1
    sticky: str | None = None
    scheduled_at: float = 0.0
    scheduled_id: int = 0
    """0 for a further attempt, whose events are recorded when it completes."""
    started_at: float | None = None
    started_id: int = 0
    worker: str = ""
    updates: list[Update] = field(default_factory=list)
    queries: list[tuple[str, str, list[Payload]]] = field(default_factory=list)
    """Id, name and arguments."""
    has_news: bool = True
    """False if only updates made it: it leaves no trace where all of them are refused."""
    is_dropped: bool = False
    """Whether the server has removed its events, because nothing happened in it."""


@dataclass(slots=True)
class Update:
    """One update on its way to a run, until its outcome is known."""

    id: str
    name: str
    input: list[Payload]
    state: str = "admitted"
    """admitted, sent, accepted, done, refused or lost."""
    outcome: Any = None
    accepted_id: int = 0
    run_id: str = ""


@dataclass(slots=True)
class Activity:
    """One activity that the server keeps trying."""

    scheduled: Event
    attempt: int = 0
    state: str = "waiting"
    """waiting (for a worker, or for its next attempt), started or over."""
    started_at: float = 0.0
    attempt_scheduled_at: float = 0.0
    beaten_at: float = 0.0
    details: list[Payload] = field(default_factory=list)
    is_cancelled: bool = False
    last_failure: Any = None
    worker: str = ""

    @property
    def token(self) -> tuple[int, int]:
        """Identifies one attempt."""
        return self.scheduled.id, self.attempt


class Execution:
    """One workflow execution, as the server has it."""

    def __init__(self, id: str, run_id: str, start: Start) -> None:
        self.id = id
        self.run_id = run_id
        self.start = start
        self.events: list[Event] = []
        self.bytes = 0
        self.task: Task | None = None
        self.attempts = 0
        """Attempts of the workflow task that failed or timed out, one after the other."""
        self.sticky: str | None = None
        self.buffered: list[tuple[str, int, Any]] = []
        self.activities: dict[int, Activity] = {}
        self.timers: dict[int, Any] = {}
        self.updates: dict[str, Update] = {}
        self.queries: list[tuple[str, str, list[Payload]]] = []
        """Queries that wait for the next workflow task."""
        self.children: dict[int, Execution] = {}
        self.cancel_requested = False
        self.is_closed = False
        self.next_run_id = ""
        self.attributes: dict[str, Any] = {}
        self.sent: dict[str, int] = {}
        """Request ids of signals, and how often each came."""

    @property
    def last(self) -> Event:
        return self.events[-1]

    @property
    def closing(self) -> Event | None:
        """The event that closed it."""
        return self.events[-1] if self.is_closed else None

    def event(self, id: int) -> Event:
        return self.events[id - 1]
