"""The state and the end of a run: the workflow's answers, its result and the details of its
failure.
"""

from __future__ import annotations

from typing import Any, Generic, Literal

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypeVar

from ..conversation import ConversationRef
from ..event_data import HoldReason
from ..messages import CutShort, Exchanged, Message, Usage, unless_empty, unless_none
from ..tool_calls import PendingApproval
from ..webhooks import PushTarget
from .inventory import Missing
from .later import AwaitedCall
from .signatures import Requesters


class RunEnd(Exchanged):
    """The figures of a run at its end: in its result, and in the details of its failure."""

    iterations: int = 0
    usage: Usage = Usage()
    tail: ConversationRef | None = None
    """The end of the conversation, which no activity's input recorded; None if it is too large for
    a result."""
    iteration: int = 0
    """The last iteration."""
    last_seq: int = 0
    """The `seq` of the last event; 0 in results recorded before this field existed."""
    tool_calls: int = unless_empty(0)
    """The number of tool executions started; reported only to a calling run."""
    cost_usd: float | None = None
    """The cost of the run and of the runs that it called, in US dollars; None if no cost is
    known."""
    unpriced_calls: int = unless_empty(0)
    """The number of model calls without a known price, which `cost_usd` does not include."""
    unread_steering: int = unless_empty(0)
    """The number of steering messages at the end of `messages` that came too late for a model
    call."""
    unchecked: int = unless_empty(0)
    """The number of messages at the end that the input guardrail has not passed; set only for a
    turn of a session."""
    handed_over: ConversationRef | None = unless_empty(None)
    """The messages that a turn of a session added; None if signals to the session (`HandedOver`)
    carry them."""
    requested_by: Requesters | None = unless_none()
    """The requesters of these messages, signed by the turn for its session; None if any of them is
    unknown."""
    handed_to: str = unless_empty("")
    """The path of the agent that spoke last, if it is not the one that the run was started with."""


class RunOutput(RunEnd):
    """The workflow's result: plain JSON, for any SDK. Data that grows with the run is in its
    history.
    """

    output: Any = None
    is_incomplete: bool = False
    cut_short: CutShort | None = unless_empty(None)
    messages: list[Message] | None = None
    """The conversation, if it is small; None otherwise."""
    agent: str = ""
    """The name of the agent that spoke last; "" in results recorded before this field existed."""
    raw: bool = unless_empty(False)
    """Whether `output` is the provider's own response, which is not parsed into a type
    (`RunOptions.raw`)."""


class RunFailure(RunEnd):
    """The details of the `ApplicationError` that ends a failed run."""

    kind: str
    reason: str | None = None
    text: str | None = None
    """The beginning of the answer, if the run failed because of it (`OutputError`)."""
    option: str | None = unless_empty(None)
    """The field of `RunOptions` whose limit was reached (`LimitExceededError`)."""
    refused: int = unless_empty(0)
    """The number of messages of a turn that the input guardrail refused: the session goes on
    without them."""


class ForkOf(Exchanged):
    """The run that a fork continues, and the iteration before which it begins: an entry of the
    fork's memo.
    """

    model_config = ConfigDict(populate_by_name=True, extra="allow")

    run: str
    """The id of the run."""
    run_id: str = Field(default="", alias="runId")
    """The run id of its first link: another run may have the same id by now."""
    at: int


class HeldUp(Exchanged):
    """The reason why a model call waits for its next attempt, such as a provider's limit."""

    kind: str
    """The kind of the `ModelError`."""
    why: str
    until: float
    """Seconds since the epoch."""


class Held(Exchanged):
    """The reason why a run is held until a person resumes it (`RunHandle.go_on`)."""

    reason: HoldReason
    kind: str
    """The kind of the error with which the run would have failed."""
    why: str
    """The text of that error."""
    option: str | None = unless_empty(None)
    """The field of `RunOptions` whose limit is reached."""
    since: float
    """Seconds since the epoch."""
    run_id: str | None = unless_empty(None)
    """The called run that is held; None for the run itself. Set by readers."""


class RunStatus(Exchanged):
    """The state of a run."""

    status: Literal[
        "running",
        "waiting_for_approval",
        "held",
        "done",
        "failed",
        "cancelled",
        "terminated",
        "timed_out",
    ]
    """A held run may also wait for a person."""
    started: float | None = unless_none()
    """When the run began, in seconds since the epoch. Readers set this and the next two fields."""
    agent: str = unless_empty("")
    """The name of the agent that acts now."""
    handed_over_by: str = unless_empty("")
    """The name of the agent before it, if the run was handed over."""
    iteration: int = 0
    model_calls: int = 0
    usage: Usage = Usage()
    cost_usd: float | None = None
    """The cost of the run up to now, in US dollars; None if no cost is known."""
    unpriced_calls: int = unless_empty(0)
    """The number of model calls without a known price, which `cost_usd` does not include."""
    pending_approvals: list[PendingApproval] = []
    last_seq: int = 0
    """The `seq` of the last event."""
    pending_steering: int = 0
    """The number of steering messages that the run has not read yet."""
    queue_without_worker: str | None = None
    """The run's task queue, if the run waits for a worker and no worker takes it up; set by
    readers."""
    workers_are_busy: bool = unless_empty(False)
    """Whether workers do poll `queue_without_worker`, but have not reached this run yet."""
    pinned_to: str | None = unless_empty(None)
    """The version (`DEPLOYMENT:BUILD`) that the run is pinned to, if no worker of that version
    polls."""
    children: list[str] = unless_empty([])
    """The ids of the called runs that it waits for."""
    missing: Missing | None = None
    """Set while the run is offered to other workers, because one of them lacks something."""
    waits_for_rate: str | None = unless_empty(None)
    """Set while the next model call waits for a permit: the provider or model whose rate is
    limited."""
    held_up: HeldUp | None = unless_empty(None)
    """Set while a model call waits for its next attempt."""
    held: list[Held] = unless_empty([])
    """The reasons why the run, or runs that it called, are held; several tool calls may be held at
    the same time."""
    awaited: list[AwaitedCall] = unless_empty([])
    """The tool calls that other systems are to finish."""
    push: list[PushTarget] = unless_empty([])
    """The push notification targets of A2A clients."""


T = TypeVar("T", default=Any)


class RunResult(BaseModel, Generic[T]):
    """The result of a run."""

    output: T
    iterations: int
    messages: list[Message]
    """The conversation as the model would see it next; a next turn may start with it (§14)."""
    usage: Usage
    agent: str = ""
    """The name of the agent that spoke last (`perdure docs agents-in-code`)."""
    cost_usd: float | None = None
    """The cost of the run and of the runs that it called, in US dollars; None if no cost is
    known."""
    unpriced_calls: int = 0
    """The number of model calls without a known price, which `cost_usd` does not include."""
    is_incomplete: bool = False
    """Whether a limit ended the run (`RunOptions.on_limit`)."""
    cut_short: CutShort | None = None
    """Why the output is cut short: `length`, `content_filter` or `limit`; None if it is
    complete."""
    unread_steering: list[str] = []
    """The steering messages that came too late for a model call; they are also the last of
    `messages`."""
