"""What a run is told, what it keeps, and what it gives: the wire types of the workflow."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, field_serializer, model_validator

from ..agent import Agent
from ..conversation import ConversationRef
from ..exchanged import Exchanged
from ..json_values import JsonObject
from ..loop.state import LoopState
from ..messages import Message, Usage
from ..options import RunOptions
from ..tool_calls import Approval, ToolSpec


class SteeringMessage(Exchanged):
    """A message to a running agent (§13.5). A plain string is accepted, so that any Temporal client can send one."""

    text: str

    @model_validator(mode="before")
    @classmethod
    def _accept_text(cls, data: Any) -> Any:
        return {"text": data} if isinstance(data, str) else data


class CallApproval(Approval):
    """An approval or denial on its way to the run, with the id of the tool call that waits for it."""

    call_id: str


class Inventory(Exchanged):
    """What the worker knows about an agent's tools and hooks, found out once, before the first model call."""

    tools: list[ToolSpec] = []
    hooks: dict[str, Literal["plain", "async"]] = {}
    """Which of `input`, `output`, `tool` and `compactor` are registered, and whether they may wait."""


class CarriedConversation(Exchanged):
    """A conversation too large for one payload: the next link loads it piece by piece from this one."""

    run_id: str
    """Of the link whose history holds the conversation."""
    reference: ConversationRef
    """Without operations: that history holds them all."""
    ends: list[int]
    """Where each piece ends, as an index into the messages."""


class Carried(Exchanged):
    """Everything that survives continue-as-new. Add fields with defaults, never rename."""

    loop: LoopState
    inventory: Inventory
    version: int
    digest: str
    last_seq: int
    steering: list[str] = []
    conversation: CarriedConversation | None = None
    """Set when `RunInput.messages` could not hold the conversation."""
    first_run_id: str = ""
    links: int = 1
    """How many workflow runs the chain had before this one."""


class RecordedOptions(RunOptions):
    """`RunOptions` as a run records them.

    Callers get an error for an option that they misspell. A recorded option that this version does not know is not
    misspelt: a newer version has put it there. It is kept, and passed on like every unknown field.
    """

    model_config = ConfigDict(extra="allow")

    @model_validator(mode="before")
    @classmethod
    def _accept_options(cls, data: Any) -> Any:
        return dict(data) if isinstance(data, RunOptions) else data


class RunInput(Exchanged):
    """The argument of the workflow: a new run, or a further link of one."""

    agent: Agent
    """As it may be recorded: secrets are references (`${env:NAME}`)."""
    messages: list[Message]
    """The conversation that the run, or this link of it, starts from."""
    inputs: JsonObject = {}
    """The inputs that bindings refer to (§9.6)."""
    options: RecordedOptions = RecordedOptions()
    features: list[str] = []
    """What the run's workers must be able to do, beyond version 0.1: names of `protocol.features.KNOWN_FEATURES`."""
    carried: Carried | None = None

    @field_serializer("agent")
    def _without_absent_fields(self, agent: Agent) -> JsonObject:
        """People read this in the Temporal UI: show what the file says, not everything that it could say."""
        return agent.model_dump(mode="json", by_alias=True, exclude_none=True)


class RunOutput(Exchanged):
    """The workflow's result. It holds the conversation when that is small; `tail` completes what the history has."""

    output: Any = None
    iterations: int = 0
    usage: Usage = Usage()
    iteration_usage: list[tuple[int, int, int, int, int]] = []
    is_incomplete: bool = False
    messages: list[Message] | None = None
    tail: ConversationRef | None = None


class RunFailure(Exchanged):
    """The details of the `ApplicationError` that a failed run ends with."""

    kind: str
    reason: str | None = None
    iterations: int = 0
    tail: ConversationRef | None = None


class PendingApproval(Exchanged):
    call_id: str
    name: str
    arguments: JsonObject
    iteration: int


class RunStatus(Exchanged):
    """Where a run stands."""

    status: Literal["running", "waiting_for_approval", "done", "failed", "cancelled", "terminated", "timed_out"]
    iteration: int = 0
    model_calls: int = 0
    usage: Usage = Usage()
    pending_approvals: list[PendingApproval] = []
    last_seq: int = 0
    pending_steering: int = 0


class RunResult(BaseModel):
    """What a run gave."""

    output: Any
    iterations: int
    messages: list[Message]
    """The conversation as the model would see it next; pass it on to continue in a next turn (§14)."""
    usage: Usage
    is_incomplete: bool = False
    """True when a limit ended the run (`RunOptions.on_limit`)."""
    iteration_usage: list[Usage] = []
    """One for each completed model call."""
