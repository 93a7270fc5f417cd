"""Types of the workflow (input, what it carries from link to link, signals), and what pacing agrees on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import ConfigDict, Field, field_validator, model_validator

from ..agents import Model, RecordedAgent, RecordedAgents
from ..conversation import Conversation, ConversationRef
from ..later import CompletedCall
from ..loop.state import LoopState
from ..messages import Exchanged, JsonObject, Message, unless_empty, unless_none
from ..options import RunOptions
from ..text import valid_text
from ..tool_calls import Approval
from ..vouching import Requesters, Vouch, content_of
from ..webhooks import PushTarget
from .inventory import Inventory


class SteeringMessage(Exchanged):
    """A message to a running agent (§13.5). It may be sent as a plain string, by any Temporal client."""

    text: str
    further: list[str] = unless_empty([])
    """Messages that were sent together with it, and are read together with it."""
    by: str | None = None
    """Who sends it; for readers of the history."""
    requested_by: Requesters | None = unless_none()
    """The same, as a gateway vouches for it."""

    @property
    def content(self) -> str:
        """Return what is signed of it."""
        return content_of("steer", self.text, self.further)

    @model_validator(mode="before")
    @classmethod
    def _accept_text(cls, data: Any) -> Any:
        return {"text": data} if isinstance(data, str) else data


class CallApproval(Approval):
    """An approval or a denial of a tool call that waits for it, as a signal or an update."""

    call_id: str
    digest: str | None = None
    """`PendingApproval.digest` of what the person has seen; None for whatever waits under that id."""
    id: str = ""
    """Identifies the decision, so that one that is sent twice counts once; "" for none."""
    vouch: Vouch | None = unless_none()
    """Who decides, as a gateway vouches for it; without it, `by` is a claim."""

    def subject(self, run: str) -> list[Any]:
        """Return what a gateway signs of it, for the run whose first link has that id."""
        said = [self.approved, self.reason, self.arguments, self.answer]
        return [run, self.call_id, self.digest, self.id, *said]

    @model_validator(mode="before")
    @classmethod
    def _approve_by_answer(cls, data: Any) -> Any:
        """Return an answer need not say that it is no denial."""
        return {"approved": True, **data} if isinstance(data, dict) and data.get("answer") is not None else data

    @field_validator("answer")
    @classmethod
    def _make_valid(cls, answer: str | None) -> str | None:
        return answer and valid_text(answer)


class OtherModel(Exchanged):
    """A model to call in place of the agent's own."""

    provider: str | None = None
    """None for the same provider, at the same address."""
    id: str = Field(min_length=1)


class GoOn(Exchanged):
    """Lets a held run go on where it stands: the argument of the signal and the update `go_on`."""

    options: JsonObject = {}
    """The fields of `RunOptions` that change (`CHANGED_BY_GO_ON`)."""
    model: OtherModel | None = unless_empty(None)
    """The model to call from now on; None for the same."""
    by: str | None = None
    """Who lets it go on."""
    id: str = ""
    """Identifies the request, so that one that is sent twice counts once; "" for none."""


class DecidedCall(Exchanged):
    """A tool call that a person has decided about."""

    call_id: str
    digest: str
    """Of the call."""
    mark: str
    """Of the decision (`Approval.mark`), as it was sent."""
    id: str = ""
    """Of the decision (`CallApproval.id`)."""
    approved: bool
    by: str | None = None
    is_vouched: bool = unless_empty(False)
    """Whether a gateway vouches for `by`."""
    word: Literal["", "answered", "expired"] = unless_empty("")
    """How it was decided, if not by an approval or a denial."""


class CarriedConversation(Exchanged):
    """Where a link finds its conversation, which was too large for its input: in the history of the link before it."""

    workflow_id: str = unless_empty("")
    """The run whose link that is; "" for the run itself."""
    run_id: str
    """The link whose history holds the conversation."""
    reference: ConversationRef
    """Without operations, which that history holds."""
    ends: list[int]
    """Where each piece ends, as an index into the messages; [] when `messages` holds them."""
    messages: list[Message] = unless_empty([])
    """The conversation itself, where it is small and `ends` is empty: then nothing is loaded."""
    of_session: bool = unless_empty(False)
    """Whether `workflow_id` is a session, not a run."""


class Shown(Exchanged):
    """What Temporal shows of earlier links in a run's current details."""

    rows: list[str] = []
    """The last iterations, each as a row of a Markdown table."""
    called_runs: int = 0
    """How many runs of other agents were called."""


class Carried(Exchanged):
    """What survives continue-as-new besides the input. Add fields with defaults, never rename any."""

    loop: LoopState
    inventory: Inventory
    version: int
    """Of the conversation."""
    digest: str
    """Of the conversation at `version`."""
    last_seq: int
    """Of the events."""
    steering: list[str] = []
    """Messages that the run has not read yet."""
    decided: list[DecidedCall] = []
    """What persons have decided of late, so that a repetition is known for one."""
    completed: list[CompletedCall] = unless_empty([])
    """The calls that other systems have finished of late, likewise."""
    push: list[PushTarget] = unless_empty([])
    """Whom A2A clients want to be told."""
    conversation: CarriedConversation | None = None
    """Set if `RunInput.messages` does not hold the conversation."""
    shown: Shown = Shown()
    first_run_id: str = ""
    links: int = 1
    """How many links the run had before this one."""
    is_upgrade: bool = unless_empty(False)
    """Whether the run has come from another version of its workers, or another agent: it asks anew what they have."""
    is_handoff: bool = unless_empty(False)
    """Whether the link before had another agent: that is why it asks."""

    @property
    def asked_before(self) -> Inventory | None:
        """The inventory that holds until the link has asked the workers; None where there is none."""
        return None if self.is_handoff else self.inventory


class RecordedOptions(RunOptions):
    """`RunOptions` as a run records them: unknown options are kept, and passed on.

    `RunOptions` itself refuses them, because a caller has misspelt them. In a recorded input, a newer version has put
    them there.
    """

    model_config = ConfigDict(extra="allow")

    trim_to: float = Field(default=1.0, gt=0, le=1, exclude_if=lambda share: share == 1.0)
    """1.0 where the input does not say it: runs were trimmed so before there was this option."""

    @model_validator(mode="before")
    @classmethod
    def _accept_options(cls, data: Any) -> Any:
        return dict(data) if isinstance(data, RunOptions) else data


class Lineage(Exchanged):
    """Where a run comes from that another run has called."""

    parent: str
    """The id of the run that has called it."""
    call_id: str
    """The tool call there."""
    depth: int = 1
    """How many runs are above it."""
    trace: str = unless_empty("")
    """The trace that the run belongs to, and the call's span in it, as a W3C `traceparent`."""


class TurnOf(Exchanged):
    """Which turn of which session a run is."""

    session: str
    """The id of the session."""
    turn: int
    """From 1."""
    unread: int = unless_empty(0)
    """How many of the last messages before those of the turn no model call was sent."""
    unchecked: int = unless_empty(0)
    """How many of them no input guardrail has let through, though there may have been one."""


_NOT_ASKED_FOR = {"requested_by", "carried", "loop_version", "search_attributes", "traceparent"}
"""The fields of a run's input that a signature leaves out: they do not change the work of the run."""


class RunInput(Exchanged):
    """The argument of the workflow: what a run, or a further link of it, starts with."""

    agent: RecordedAgent
    """Without secrets: those are references (`${env:NAME}`)."""
    messages: list[Message]
    """The conversation that the link starts with; empty if it is loaded (`Carried.conversation`)."""
    inputs: JsonObject = {}
    """The inputs that bindings refer to (§9.6)."""
    deps: Any = unless_none()
    """The deps of the run's functions (`ToolContext.deps`), as JSON."""
    options: RecordedOptions = RecordedOptions()
    given: list[str] = unless_empty([])
    """The options that the caller has set: an agent that the run is handed over to does not change them."""
    loop_version: int = 1
    """The `LOOP_VERSION` that the link goes by: that of who has started the run, or of the worker that has continued
    it. A worker whose own is lower leaves the run to others."""
    search_attributes: list[str] = []
    """Those of perdure's own that the start has set, so that they are known to be registered: the run keeps them true.
    To change another one would stop the run for ever."""
    agents: RecordedAgents = unless_empty({})
    """The agents of other files that this one can reach, by path; they have no secrets either."""
    handoffs: dict[str, list[Message]] = unless_empty({})
    """The instructions of those as which the run may go on, by path."""
    handed_to: str = unless_empty("")
    """The path of `agent`, once the run, or an earlier turn of its session, was handed over to it."""
    lineage: Lineage | None = unless_empty(None)
    """Set if another run has called this one as a tool."""
    traceparent: str = unless_empty("")
    """The span in which the caller has started the run (W3C Trace Context), if there was one: the trace links to it."""
    beginning: CarriedConversation | None = unless_empty(None)
    """Where the conversation is found that comes before `messages`: that of a fork, or of a session."""
    session: TurnOf | None = unless_empty(None)
    """Set if the run is a turn of a session."""
    requested_by: Requesters | None = unless_none()
    """Who has asked for the run, as a gateway vouches for it, the run or session that has started it, or the link
    before."""
    carried: Carried | None = None
    """None for the first link of a run."""

    @property
    def content(self) -> str:
        """Return what is signed of it: what the run does for those who have asked for it."""
        asked = self.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=_NOT_ASKED_FOR)
        return content_of("start", asked)

    @property
    def conversation_elsewhere(self) -> CarriedConversation | None:
        """Return where the link finds its conversation; None when this input holds it."""
        elsewhere = self.carried.conversation if self.carried else self.beginning
        return elsewhere if elsewhere is not None and elsewhere.ends else None

    @property
    def initial_messages(self) -> list[Message]:
        """Conversation that the link starts with, as far as this input holds it."""
        if self.carried is None and self.beginning is not None:
            return self.beginning.messages
        return self.messages

    @property
    def added_messages(self) -> list[Message]:
        """Return what the first link adds to the conversation of `beginning` before it iterates."""
        return self.messages if self.beginning and not self.carried else []

    @property
    def version(self) -> int:
        """Of the conversation that the link starts with."""
        if self.carried is not None:
            return self.carried.version
        return self.beginning.reference.version if self.beginning else 0

    def conversation(self, loaded: Sequence[Message] = ()) -> Conversation:
        """Return what the link starts with; `loaded` is the conversation that it finds elsewhere, if it does."""
        if self.carried is None and self.beginning is None:
            return Conversation.recorded(self.messages)
        start = self.carried or self.beginning.reference  # type: ignore[union-attr]
        messages = loaded if self.conversation_elsewhere else self.initial_messages
        return Conversation.recorded(messages, version=start.version, digest=start.digest)


PacedCall = str
"""Which call of a run takes a permit: that of a model (`paced_model`), or `compactor`, of an agent that compacts."""

_RATE = "/rate/"


class QueueInput(Exchanged):
    """A question about a task queue."""

    task_queue: str


def paced_model(fallback: int) -> PacedCall:
    """Return the call of the agent's own model, or of one of its `fallback`, from 1."""
    return f"fallback {fallback}" if fallback else "model"


def paced_with(paced: Mapping[PacedCall, str], model: Model) -> dict[PacedCall, str]:
    """Return the same with another model in the place of the agent's own: with its rate, if one of these is."""
    names = (f"{model.provider_key}/{model.id}", model.provider_key)
    queues = {rate_of(queue): queue for queue in paced.values()}
    found = next((queues[name] for name in names if name in queues), None)
    others = {call: queue for call, queue in paced.items() if call != paced_model(0)}
    return {paced_model(0): found, **others} if found else others


def rate_queue(task_queue: str, name: str) -> str:
    """Return the queue that gives out the permits of one rate to the runs of a task queue."""
    return f"{task_queue}{_RATE}{name}"


def rate_of(queue: str) -> str:
    """Return the name of the rate that a queue gives out permits of."""
    return queue.rpartition(_RATE)[2]
