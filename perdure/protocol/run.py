"""The types of the run workflow (its input, signals and the state that it carries from link to
link), and rate queues.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from pydantic import ConfigDict, Field, field_validator, model_validator

from ..agents import Model, RecordedAgent, RecordedAgents
from ..conversation import Conversation, ConversationRef
from ..loop.state import LoopState
from ..messages import Exchanged, JsonObject, Message, unless_empty, unless_none
from ..options import RunOptions
from ..text import valid_text
from ..tool_calls import Approval
from ..webhooks import PushTarget
from .inventory import Inventory
from .later import CompletedCall
from .signatures import Requesters, SignedIdentity, content_of


class SteeringMessage(Exchanged):
    """A message to a running agent (§13.5). Any Temporal client may also send it as a plain
    string.
    """

    text: str
    further: list[str] = unless_empty([])
    """Messages that were sent together with it; the run reads them together, too."""
    by: str | None = None
    """The sender; for readers of the history."""
    id: str = unless_empty("")
    """Identifies the message, so that the run reads it once if it arrives again; another text under
    the same id is another message. "" for none."""
    requested_by: Requesters | None = unless_none()
    """The sender, signed by a gateway."""

    @property
    def content(self) -> str:
        """Return the signed content."""
        return content_of("steer", self.text, self.further)

    @model_validator(mode="before")
    @classmethod
    def _accept_text(cls, data: Any) -> Any:
        return {"text": data} if isinstance(data, str) else data


class CallApproval(Approval):
    """An approval or a denial of a tool call that waits for it, as a signal or an update."""

    call_id: str
    digest: str | None = None
    """`PendingApproval.digest` of the call that the person saw; None for any call that waits under
    that id."""
    id: str = ""
    """Identifies the decision, so that a duplicate counts once; "" for none."""
    vouch: SignedIdentity | None = unless_none()
    """The approver, signed by a gateway; without it, `by` is a claim."""

    def subject(self, run: str) -> list[Any]:
        """Return the content that a gateway signs, for the run whose first link has that id."""
        said = [self.approved, self.reason, self.arguments, self.answer]
        return [run, self.call_id, self.digest, self.id, *said]

    @model_validator(mode="before")
    @classmethod
    def _approve_by_answer(cls, data: Any) -> Any:
        """Let an answer leave out `approved`."""
        return (
            {"approved": True, **data}
            if isinstance(data, dict) and data.get("answer") is not None
            else data
        )

    @field_validator("answer")
    @classmethod
    def _make_valid(cls, answer: str | None) -> str | None:
        return answer and valid_text(answer)


class OtherModel(Exchanged):
    """A model to call instead of the agent's own."""

    provider: str | None = None
    """None for the same provider at the same address."""
    id: str = Field(min_length=1)


class GoOn(Exchanged):
    """Resumes a held run at the point where it waits: the argument of the signal and the update
    `go_on`.
    """

    options: JsonObject = {}
    """The fields of `RunOptions` that change (`CHANGED_BY_GO_ON`)."""
    model: OtherModel | None = unless_empty(None)
    """The model to call from now on; None for the same."""
    by: str | None = None
    """The person who resumes the run."""
    id: str = ""
    """Identifies the request, so that a duplicate counts once; "" for none."""


class DecidedCall(Exchanged):
    """A tool call that a person has decided."""

    call_id: str
    digest: str
    """The call's digest."""
    mark: str
    """The decision's mark (`Approval.mark`), as it was sent."""
    id: str = ""
    """The decision's id (`CallApproval.id`)."""
    approved: bool
    by: str | None = None
    is_vouched: bool = unless_empty(False)
    """Whether a gateway signed `by`."""
    word: Literal["", "answered", "expired"] = unless_empty("")
    """The kind of decision, if it is neither an approval nor a denial."""


class CarriedConversation(Exchanged):
    """The place of a conversation that is too large for a link's input: the history of the link
    before it.
    """

    workflow_id: str = unless_empty("")
    """The run that the link belongs to; "" for the run itself."""
    run_id: str
    """The link whose history holds the conversation."""
    reference: ConversationRef
    """Without operations, which that history holds."""
    ends: list[int]
    """The end of each piece, as an index into the messages; [] if `messages` holds them."""
    messages: list[Message] = unless_empty([])
    """The conversation itself, if it is small and `ends` is empty: then nothing is loaded."""
    of_session: bool = unless_empty(False)
    """Whether `workflow_id` is a session, not a run."""


class Carried(Exchanged):
    """The state that survives continue-as-new besides the input. Add fields with defaults, never
    rename any.
    """

    loop: LoopState
    inventory: Inventory
    version: int
    """The conversation's version."""
    digest: str
    """The conversation's digest at `version`."""
    last_seq: int
    """The `seq` of the last event."""
    steering: list[str] = []
    """The messages that the run has not read yet."""
    steered: list[str] = unless_empty([])
    """Digests of recent messages to the run, with their ids, by which it recognises a duplicate."""
    decided: list[DecidedCall] = []
    """People's recent decisions, by which the run recognises a duplicate."""
    completed: list[CompletedCall] = unless_empty([])
    """The calls that other systems finished recently, for the same purpose."""
    push: list[PushTarget] = unless_empty([])
    """The push notification targets of A2A clients."""
    conversation: CarriedConversation | None = None
    """Set if `RunInput.messages` does not hold the conversation."""
    first_run_id: str = ""
    links: int = 1
    """The number of links before this one."""
    is_upgrade: bool = unless_empty(False)
    """Whether the run comes from another version of its workers, or from another agent: it asks for
    an inventory anew."""
    is_handoff: bool = unless_empty(False)
    """Whether the link before had another agent, so that this one asks."""

    @property
    def asked_before(self) -> Inventory | None:
        """The inventory in force until the link has asked the workers; None if there is none."""
        return None if self.is_handoff else self.inventory


class RecordedOptions(RunOptions):
    """`RunOptions` as a run records them: unknown options are kept and passed on.

    `RunOptions` itself refuses them, because a caller has misspelt them. In a recorded input, a
    newer version of perdure wrote them.
    """

    model_config = ConfigDict(extra="allow")

    @model_validator(mode="before")
    @classmethod
    def _accept_options(cls, data: Any) -> Any:
        return dict(data) if isinstance(data, RunOptions) else data


class Lineage(Exchanged):
    """The call from which a called run comes."""

    parent: str
    """The id of the calling run."""
    call_id: str
    """The tool call there."""
    depth: int = 1
    """The number of runs above it."""
    trace: str = unless_empty("")
    """The trace that the run belongs to, and the call's span in it, as a W3C `traceparent`."""


class TurnOf(Exchanged):
    """The session and the turn that a run is."""

    session: str
    """The id of the session."""
    turn: int
    """From 1."""
    unread: int = unless_empty(0)
    """The number of messages directly before those of the turn that no model call has included."""
    unchecked: int = unless_empty(0)
    """The number of them that no input guardrail has passed, though there may have been one."""


NOT_ASKED_FOR = {"requested_by", "carried", "loop_version", "search_attributes", "traceparent"}
"""The fields of the input of a run or a session that a signature leaves out: they do not change the
work."""


def given_values(model: Exchanged, *, without: Collection[str] = ()) -> JsonObject:
    """Return the fields that differ from their defaults as JSON, so that a field added later
    changes no signature.

    `without` names fields to leave out.
    """
    return model.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=set(without))


class RunInput(Exchanged):
    """The argument of the workflow, with which a run or a further link of it starts."""

    agent: RecordedAgent
    """Without secrets, which are references (`${env:NAME}`)."""
    messages: list[Message]
    """The conversation that the link starts with; empty if it is loaded
    (`Carried.conversation`)."""
    inputs: JsonObject = {}
    """The inputs that bindings refer to (§9.6)."""
    deps: Any = unless_none()
    """The deps of the run's functions (`ToolContext.deps`), as JSON."""
    options: RecordedOptions = RecordedOptions()
    given: list[str] = unless_empty([])
    """The options that the caller set: an agent that takes the run over does not change them."""
    loop_version: int = 1
    """The link's `LOOP_VERSION`: that of the client that started the run, or of the worker that
    continued it. A worker whose own version is lower leaves the run to others."""
    search_attributes: list[str] = []
    """perdure's search attributes that the start set, and that are therefore registered: the run
    keeps them current. Setting an unregistered one would block the run for ever."""
    agents: RecordedAgents = unless_empty({})
    """The agents in other files that this one can reach, by path; they contain no secrets
    either."""
    handoffs: dict[str, list[Message]] = unless_empty({})
    """The instructions of the agents that may take the run over, by path."""
    handed_to: str = unless_empty("")
    """The path of `agent`, once the run, or an earlier turn of its session, was handed over to
    it."""
    lineage: Lineage | None = unless_empty(None)
    """Set if another run has called this one as a tool."""
    traceparent: str = unless_empty("")
    """The span in which the caller started the run (W3C Trace Context), if any: the trace links to
    it."""
    beginning: CarriedConversation | None = unless_empty(None)
    """The place of the session's conversation, which precedes `messages`."""
    session: TurnOf | None = unless_empty(None)
    """Set if the run is a turn of a session."""
    requested_by: Requesters | None = unless_none()
    """The requesters of the run, signed by a gateway, by the run or session that started it, or by
    the link before."""
    carried: Carried | None = None
    """None for the first link of a run."""

    @property
    def content(self) -> str:
        """Return the signed content: the work that the run does for its requesters."""
        return content_of("start", given_values(self, without=NOT_ASKED_FOR))

    @property
    def conversation_elsewhere(self) -> CarriedConversation | None:
        """Return the place of the link's conversation; None if this input holds it."""
        elsewhere = self.carried.conversation if self.carried else self.beginning
        return elsewhere if elsewhere is not None and elsewhere.ends else None

    @property
    def initial_messages(self) -> list[Message]:
        """The part of the conversation at the link's start that this input holds."""
        if self.carried is None and self.beginning is not None:
            return self.beginning.messages
        return self.messages

    @property
    def added_messages(self) -> list[Message]:
        """Return the messages that the first link adds to the conversation of `beginning` before it
        iterates.
        """
        return self.messages if self.beginning and not self.carried else []

    @property
    def version(self) -> int:
        """The version of the conversation that the link starts with."""
        if self.carried is not None:
            return self.carried.version
        return self.beginning.reference.version if self.beginning else 0

    def conversation(self, loaded: Sequence[Message] = ()) -> Conversation:
        """Return the conversation that the link starts with; `loaded` is the part that is kept
        elsewhere.
        """
        if self.carried is None and self.beginning is None:
            return Conversation.recorded(self.messages)
        start = self.carried or self.beginning.reference  # type: ignore[union-attr]
        messages = loaded if self.conversation_elsewhere else self.initial_messages
        return Conversation.recorded(messages, version=start.version, digest=start.digest)


PacedCall = str
"""A call of a run that takes a permit (`paced_model`)."""

_RATE = "/rate/"


class QueueInput(Exchanged):
    """A question about a task queue."""

    task_queue: str


def paced_model(fallback: int) -> PacedCall:
    """Return the call of the agent's own model (0), or of one of its `fallback` models, from 1."""
    return f"fallback {fallback}" if fallback else "model"


def paced_with(paced: Mapping[PacedCall, str], model: Model) -> dict[PacedCall, str]:
    """Return the run's paced calls and their queues of permits, once `model` has replaced the
    agent's own. Its calls use the queue of its rate if a call did so before; otherwise they need no
    permit.
    """
    names = (f"{model.provider_key}/{model.id}", model.provider_key)
    queues = {rate_of(queue): queue for queue in paced.values()}
    found = next((queues[name] for name in names if name in queues), None)
    others = {call: queue for call, queue in paced.items() if call != paced_model(0)}
    return {paced_model(0): found, **others} if found else others


def rate_queue(task_queue: str, name: str) -> str:
    """Return the queue that issues the permits of one rate to the runs of a task queue."""
    return f"{task_queue}{_RATE}{name}"


def rate_of(queue: str) -> str:
    """Return the name of the rate whose permits a queue issues."""
    return queue.rpartition(_RATE)[2]
