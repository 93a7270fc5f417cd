"""How a run stands, and how it ends: the workflow's answers, its result and the details of its failure."""

from __future__ import annotations

from typing import Any, Generic, Literal

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypeVar

from ..conversation import ConversationRef
from ..event_data import HoldReason
from ..later import AwaitedCall
from ..messages import CutShort, Exchanged, Message, Usage, unless_empty, unless_none
from ..tool_calls import PendingApproval
from ..webhooks import PushTarget
from .inventory import Missing


class RunOutput(Exchanged):
    """The workflow's result: plain JSON, for any SDK. What grows with the run is in its history."""

    output: Any = None
    iterations: int = 0
    usage: Usage = Usage()
    is_incomplete: bool = False
    cut_short: CutShort | None = unless_empty(None)
    messages: list[Message] | None = None
    """The conversation, if it is small; None otherwise."""
    tail: ConversationRef | None = None
    """The end of the conversation, which no activity's input has recorded; None if it is too large for a result."""
    iteration: int = 0
    """The last one."""
    last_seq: int = 0
    """The `seq` of the last event; 0 in results that were recorded before there was this field."""
    tool_calls: int = unless_empty(0)
    """Tool executions that were started; only told to a run that has called this one."""
    cost_usd: float | None = None
    """What the run has cost, in US dollars, with the runs that it has called; None when nothing is known of it."""
    unpriced_calls: int = unless_empty(0)
    """How many model calls are not in `cost_usd`, because their price is not known."""
    unread_steering: int = unless_empty(0)
    """How many of the last messages are steering messages that came too late for a model call."""
    unchecked: int = unless_empty(0)
    """How many of the last messages the input guardrail has not let through; only of a turn of a session."""
    handed_over: ConversationRef | None = unless_empty(None)
    """What a turn of a session has added to its conversation; None where signals to the session (`HandedOver`) tell."""
    slept_seconds: float = unless_empty(0.0)
    """How long no worker took the run up: see `RunStatus`."""
    agent: str = ""
    """The name of the agent that has spoken last; "" in results that were recorded before there was this field."""
    handed_to: str = unless_empty("")
    """Its path, where it is not the one that the run was started with."""
    raw: bool = unless_empty(False)
    """Whether `output` is the provider's own response, which is read as no type (`RunOptions.raw`)."""


class RunFailure(Exchanged):
    """The details of the `ApplicationError` that ends a failed run; what `RunOutput` has too is as there."""

    kind: str
    reason: str | None = None
    text: str | None = None
    """The beginning of the answer, of a run that failed for the sake of it (`OutputError`)."""
    option: str | None = unless_empty(None)
    """The field of `RunOptions` whose limit was reached (`LimitExceededError`)."""
    iterations: int = 0
    tail: ConversationRef | None = None
    usage: Usage = Usage()
    iteration: int = 0
    last_seq: int = 0
    tool_calls: int = unless_empty(0)
    cost_usd: float | None = None
    unpriced_calls: int = unless_empty(0)
    unread_steering: int = unless_empty(0)
    unchecked: int = unless_empty(0)
    handed_over: ConversationRef | None = unless_empty(None)
    refused: int = unless_empty(0)
    """How many messages of a turn the input guardrail has refused: the session goes on without them."""
    slept_seconds: float = unless_empty(0.0)
    handed_to: str = unless_empty("")


class ForkOf(Exchanged):
    """Which run a fork goes on from, and before which of its iterations: an entry of the fork's memo."""

    model_config = ConfigDict(populate_by_name=True, extra="allow")

    run: str
    """The id of the run."""
    run_id: str = Field(default="", alias="runId")
    """Of its first link: another run may have the id by now."""
    at: int


class HeldUp(Exchanged):
    """Why a model call is made again later, such as a provider's limit."""

    kind: str
    """Of the `ModelError`."""
    why: str
    until: float
    """Seconds since the epoch."""


class Held(Exchanged):
    """Why a run is held until somebody lets it go on (`RunHandle.go_on`)."""

    reason: HoldReason
    kind: str
    """Of the error with which the run would have failed."""
    why: str
    """The text of that error."""
    option: str | None = unless_empty(None)
    """The field of `RunOptions` whose limit is reached."""
    since: float
    """Seconds since the epoch."""
    run_id: str | None = unless_empty(None)
    """The called run that is held; None for the run itself. Readers find this out."""


class RunStatus(Exchanged):
    """Where a run stands."""

    status: Literal["running", "waiting_for_approval", "held", "done", "failed", "cancelled", "terminated", "timed_out"]
    """A run that is held may wait for a person, too."""
    started: float | None = unless_none()
    """When the run began, in seconds since the epoch; readers find this out, and the two names that follow."""
    agent: str = unless_empty("")
    """The name of the agent that acts now."""
    handed_over_by: str = unless_empty("")
    """The name of the one before it, if the run was handed over."""
    iteration: int = 0
    model_calls: int = 0
    usage: Usage = Usage()
    cost_usd: float | None = None
    """What the run has cost so far, in US dollars; None when nothing is known of it."""
    unpriced_calls: int = unless_empty(0)
    """How many model calls are not in it, because their price is not known."""
    pending_approvals: list[PendingApproval] = []
    last_seq: int = 0
    """The `seq` of the last event."""
    pending_steering: int = 0
    """How many steering messages the run has not read yet."""
    queue_without_worker: str | None = None
    """The run's task queue, when the run waits for a worker and no worker takes it up; readers find this out."""
    workers_are_busy: bool = unless_empty(False)
    """Whether workers poll the queue of `queue_without_worker` all the same, and have not come to this run yet."""
    pinned_to: str | None = unless_empty(None)
    """The version (`DEPLOYMENT:BUILD`) whose workers alone execute the run, where none of them does."""
    children: list[str] = unless_empty([])
    """The ids of the runs that it has called and waits for."""
    missing: Missing | None = None
    """Set while the run is offered to other workers, because one of them lacks something."""
    waits_for_rate: str | None = unless_empty(None)
    """Set while the next model call waits for a permit: the provider or model whose rate is limited."""
    held_up: HeldUp | None = unless_empty(None)
    """Set while a model call waits to be made again."""
    held: list[Held] = unless_empty([])
    """Why the run is held, or runs that it has called; several of its tool calls may be, at the same time."""
    awaited: list[AwaitedCall] = unless_empty([])
    """The tool calls that other systems are to finish."""
    push: list[PushTarget] = unless_empty([])
    """Whom A2A clients want to be told."""
    slept_seconds: float = unless_empty(0.0)
    """How long no worker took the run up, each time for more than `RunOptions.stale_after`."""


T = TypeVar("T", default=Any)


class RunResult(BaseModel, Generic[T]):
    """The result of a run."""

    output: T
    iterations: int
    messages: list[Message]
    """The conversation as the model would see it next; a next turn may start with it (§14)."""
    usage: Usage
    agent: str = ""
    """The name of the agent that has spoken last (`perdure docs agents-in-code`)."""
    cost_usd: float | None = None
    """What the run has cost, in US dollars, with the runs that it has called; None when nothing is known of it."""
    unpriced_calls: int = 0
    """How many model calls are not in `cost_usd`, because their price is not known."""
    is_incomplete: bool = False
    """Whether a limit ended the run (`RunOptions.on_limit`)."""
    cut_short: CutShort | None = None
    """Why the output ends before all was said: `length`, `content_filter`, or `limit`; None where it is whole."""
    unread_steering: list[str] = []
    """The steering messages that came too late for a model call; they are the last of `messages`, too."""
