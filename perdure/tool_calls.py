"""One tool call within a run: the tool's specification, the request, and a person's decision."""

from __future__ import annotations

import json
import operator
from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, ValidationError, field_validator

from .agents import Agent, RecordedAgents
from .declared_tools import ApprovalPolicy, OfferedFunction
from .json_types import JsonObject
from .messages import Answered, Exchanged, Message, Part, ToolResult, unless_empty, unless_none
from .schema import object_schema
from .text import one_line, unknown_argument


class ToolRequest(Exchanged):
    """A tool call to execute, with its arguments parsed."""

    call_id: str
    name: str
    arguments: JsonObject
    iteration: int
    index: int
    """The call's place in the model's reply, from 0."""
    calls: int = Field(default=1, exclude_if=lambda calls: calls == 1)
    """The number of calls in that reply, which share the size limits of results."""
    context: list[Message] = Field(default_factory=list, exclude_if=operator.not_)
    """The conversation's last messages before that reply, as many as the tool asks for
    (`ToolSpec.context`)."""
    answered: Answered | None = unless_empty(None)
    """A person's answer since the tool's last execution, which had a question
    (`ToolResult.needs`)."""
    may_repeat: bool = unless_empty(False)
    """Whether an equal call of the run has an unknown outcome."""

    @property
    def digest(self) -> str:
        """Distinguishes this call with these arguments from all other calls of the run, even of the
        same id.
        """
        return _digest([self.call_id, self.iteration, self.index, self.name, self.arguments])


class ForeignActivity(Exchanged):
    """A call is an activity of a foreign worker, in any language; its argument is the call's
    arguments.
    """

    by: Literal["activity"] = "activity"
    activity: str
    """The activity's type."""
    task_queue: str
    options: JsonObject = {}
    """Time-outs and retry policy, as parsed by the kind of tool."""


class ChildWorkflow(Exchanged):
    """A call is a child workflow; its argument is the call's arguments."""

    by: Literal["workflow"] = "workflow"
    workflow: str
    """The workflow's type."""
    task_queue: str | None = None
    """None for the run's own."""
    options: JsonObject = {}
    """Id, reuse policy and time-outs, as parsed by the kind of tool."""


class ChildRun(Exchanged):
    """A call is a run of another agent, as a child workflow; the call's activity prepares its
    conversation.
    """

    by: Literal["run"] = "run"
    path: str = ""
    """The key of the agent among those that the run has recorded."""
    mode: Literal["single", "agentic"] = "single"
    """One model call without tools, or a loop of its own."""
    agents: RecordedAgents = unless_empty({})
    """The agents that a worker read because the run was started without them."""


class Handoff(Exchanged):
    """After a call, the run continues as the agent of that path, which it has recorded."""

    by: Literal["handoff"] = "handoff"
    path: str


class Question(Exchanged):
    """A call is a question to a person, whose answer is the result."""

    by: Literal["person"] = "person"


Execution = Annotated[
    ForeignActivity | ChildWorkflow | ChildRun | Handoff | Question, Discriminator("by")
]
"""The execution of a call other than by an activity of perdure's worker."""


class PreparedRun(ToolResult):
    """The result of the activity of such a call: the beginning of the other agent's run, or why it
    can't begin.
    """

    parts: list[Part] = []
    messages: list[Message] | None = None
    """The conversation at its beginning; None if this is the call's result already."""
    inputs: JsonObject = {}
    """The inputs that the bindings of its own tools refer to."""
    handoffs: dict[str, list[Message]] = unless_empty({})  # As in `RunInput`.


class RecordedSignature(Exchanged):
    """The parameters of a tool's function at the beginning of a run."""

    declaration: str = ""
    """For people: `(claim: string, euros?: float)`."""
    names: list[str] = []  # of its parameters
    digest: str = ""
    """Of the parameters as the model is offered them."""
    takes_anything: bool = unless_empty(False)
    """Whether it accepted any arguments."""
    defaults: dict[str, str] = unless_empty({})
    """A digest of the default of each parameter that has one, by name."""


class ToolSpec(Exchanged):
    """The loop's knowledge of a function that the model is offered."""

    name: str
    timeout: float | None = None
    """Seconds for one execution; None means `RunOptions.tool_timeout`."""
    idempotent: bool = True
    """Whether an execution lost together with its worker may be repeated."""
    safe_to_repeat: bool = unless_empty(False)
    """Whether repeating an equal call is declared harmless."""
    reconcile: bool = unless_empty(False)
    """Whether a function of the tool's own can find the outcome of a call of unknown outcome."""
    parallel_safe: bool = True
    """Whether it may run at the same time as the other calls of one reply."""
    needs_approval: bool = False
    """Whether a person must approve each call."""
    approval_check: Literal["plain", "async"] | None = None
    """The kind of the tool's own function that decides whether a person must approve a call; None
    for none."""
    retries: int = 0
    """How often a failed execution is repeated."""
    local: bool = False
    """Whether it is executed as a local activity."""
    isolated: bool = unless_empty(False)
    """Whether its function is called in a process of its own."""
    max_result: int | None = None
    """The bytes of text of one result that the model reads; None for the usual limit."""
    approval_timeout: float | None = None
    """Seconds until an undecided call or question is denied; None for never."""
    approvers: ApprovalPolicy | None = unless_none()
    """The people who may decide a call, if a person is asked; None for anybody."""
    activity: str | None = None
    """The type of the activity that executes it; None for the one that all tools share."""
    execution: Execution | None = None
    """The execution of a call, if not by an activity of perdure's worker."""
    context: int = unless_empty(0)
    """The number of the conversation's last messages that go along with a call."""
    built_in: str | None = unless_empty(None)
    """The one of perdure's own tools that it is (`kind: builtin`)."""
    max_parallel: int | None = unless_empty(None)
    """The most calls that each worker executes at a time; None for as many as it has slots."""
    queue: str | None = unless_empty(None)
    """The task queue that workers with such a limit poll for its calls; None for the run's own."""
    signature: RecordedSignature | None = unless_empty(None)
    """The parameters of its function, if it has one: a worker whose function differs lacks the
    tool."""
    description: str | None = None
    """Its description for the model; set for tools about which a person may be asked."""
    parameters: JsonObject | None = None
    """The JSON Schema of its arguments, as the model sees it; None if unknown."""

    def described(self, agent: Agent, *, may_ask: bool = False) -> ToolSpec:
        """Return a copy with the agent's declaration, if a person may be asked (`may_ask`: about
        any tool).
        """
        tool = agent.tool(self.name)
        may_ask = may_ask or self.needs_approval or not self.idempotent
        if (
            not (may_ask or self.approval_check or isinstance(self.execution, Question))
            or tool is None
        ):
            return self
        declared = getattr(tool, "parameters", None)
        parameters = tool.schema_ if isinstance(tool, OfferedFunction) else self.parameters
        if parameters is None and declared is not None:
            parameters = object_schema(
                [each for each in declared if each.name not in (tool.bindings or {})]
            )
        return self.model_copy(
            update={"description": self.description or tool.description, "parameters": parameters}
        )


def agents_in(tools: Iterable[ToolSpec]) -> dict[str, Agent]:
    """Return the agents of other files that a worker read for these tools, by path."""
    found: dict[str, Agent] = {}
    for tool in tools:
        if isinstance(tool.execution, ChildRun):
            found.update(tool.execution.agents)
    return found


class Approval(Exchanged):
    """A person's decision about one tool call: yes, yes with other arguments, an answer, or no."""

    approved: bool
    reason: str | None = None
    """Why it was denied, or a question not answered; the model reads it."""
    arguments: JsonObject | None = None
    """Replace the model's arguments; None keeps those."""
    by: str | None = None
    """The approver."""
    answer: str | None = None
    """The answer to a question: the result of the call."""

    @property
    def mark(self) -> str:
        """Equal for equal decisions, regardless of the approver."""
        answer = [] if self.answer is None else [self.answer]
        return _digest([self.approved, self.reason, self.arguments, *answer])


class Approver(Exchanged):
    """A approver whom a gateway identified."""

    name: str
    tenant: str | None = None
    roles: list[str] = []
    key_id: str
    """The id of the key with which the gateway signed."""
    at: float
    """When the run accepted the decision, in seconds since the epoch."""


class Vote(Approver):
    """An approval or an answer of one of several required approvers."""

    arguments: JsonObject | None = unless_none()
    """As `Approval.arguments`."""
    answer: str | None = unless_none()
    """As `Approval.answer`."""


class Decided(Approval):
    """A decision that the run accepted."""

    approvers: list[Approver] = []
    """The approvers whom a gateway identified; `by` of a decision without any is a claim."""


class ToolProgress(Exchanged):
    """The progress of a running call, reported by its tool: the last detail of the activity's
    heartbeats.
    """

    event: Literal["tool_progress"] = "tool_progress"
    name: str
    """The tool's name."""
    call_id: str
    iteration: int
    done: float
    total: float | None = None
    text: str = ""


def progress_of(detail: Any) -> ToolProgress | None:
    """Return the progress in a heartbeat's detail; None for any other detail."""
    if not isinstance(detail, dict) or detail.get("event") != "tool_progress":
        return None
    try:
        return ToolProgress.model_validate(detail)
    except ValidationError:
        return None


class PendingApproval(Exchanged):
    """A call that waits for a person: for an approval, or for the answer to a question."""

    model_config = ConfigDict(populate_by_name=True)

    call_id: str
    run_id: str | None = unless_empty(None)
    """The called run in which it waits, and which takes the decision; None for the run itself."""
    kind: Literal["approval", "question"] = "approval"
    name: str
    """The tool's name."""
    description: str | None = None
    """The tool's description."""
    parameters: JsonObject | None = Field(default=None, alias="schema")
    """The JSON Schema that edited arguments must fit; None if unknown."""
    arguments: JsonObject
    digest: str = ""
    """Identifies the call with these arguments: `approve(digest=…)` is refused if it no longer
    waits."""
    since: float = 0.0
    """When it began to wait, in seconds since the epoch."""
    deadline: float | None = None
    """When it is denied automatically, in seconds since the epoch; None for never."""
    reason: str | None = None
    """The reason to ask a person, if the tool or a guardrail gave one."""
    question: str | None = None
    """The model's question; None for an approval."""
    choices: list[str] = []
    """The answers that a question suggests, or allows; empty for any."""
    allow_other: bool = True
    """Whether a question accepts another answer than the choices."""
    iteration: int
    approvers: ApprovalPolicy | None = unless_none()
    """The people who may decide; None for anybody."""
    votes: list[Vote] = unless_empty([])
    """The approvals up to now, if several are required."""

    @property
    def schema(self) -> JsonObject | None:  # type: ignore[override]
        """The same as `parameters`, under its name in JSON."""
        return self.parameters


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return blake2b(text.encode(), digest_size=8).hexdigest()


MAX_ANSWER_BYTES = 64 * 1024
"""The limit of the answer to a question; the model reads all of it."""
CHECK_FAILED = "the tool can't say whether it needs an approval: {}"
"""The reason to ask a person when the tool's own function failed."""
_DEFAULTS: JsonObject = {"choices": [], "allow_other": True}


class AskedQuestion(BaseModel):
    """The question in the arguments of a call whose execution is a `Question`. Raises
    ValidationError for others.
    """

    model_config = ConfigDict(extra="forbid")

    question: str = Field(pattern=r"\S")
    choices: list[str] = []
    """The suggested answers; empty for none."""
    allow_other: bool = True
    """Whether another answer than the choices is accepted."""

    @field_validator("choices", "allow_other", mode="before")
    @classmethod
    def _absent(cls, value: Any, info: Any) -> Any:
        """Treat null as absent: strict schemas make models write it for omitted arguments."""
        return _DEFAULTS[info.field_name] if value is None else value

    def problem_with(self, answer: str) -> str | None:
        """Return why the answer is not accepted, and the expected one; None if it is."""
        if not answer.strip():
            return "the answer is empty: expected a text"
        if (size := len(answer.encode(errors="replace"))) > MAX_ANSWER_BYTES:
            return f"the answer takes {size:,} bytes: at most {MAX_ANSWER_BYTES:,} are possible"
        if self.choices and not self.allow_other and answer not in self.choices:
            expected = ", ".join(repr(one_line(choice)) for choice in self.choices)
            return (
                f"the answer {one_line(answer)!r} is not among the choices: expected one of "
                f"{expected}"
            )
        return None


def read_question(arguments: JsonObject) -> AskedQuestion | str:
    """Return the model's question; for invalid arguments, a text that explains the error."""
    try:
        return AskedQuestion.model_validate(arguments)
    except ValidationError as error:
        return "; ".join(
            _problem(each) for each in error.errors(include_url=False, include_context=False)
        )


def misfit(asked: AskedQuestion | None, decision: Approval) -> str | None:
    """Return why a decision does not fit the request, and the expected one; None if it does."""
    if asked is None:
        return (
            None
            if decision.answer is None
            else "it waits for an approval, not for an answer: approve or deny it"
        )
    if decision.answer is not None:
        return asked.problem_with(decision.answer)
    return "it is a question: answer it, or deny it with a reason" if decision.approved else None


@dataclass(frozen=True)
class Asked:
    """The details of a request to a person, besides the call."""

    reason: str | None = None
    """The reason to ask, if the tool or a guardrail gave one."""
    seconds: float | None = None
    """The time limit for the decision; None for ever."""
    deadline: float | None = None
    """When that time ends, in seconds since the epoch."""
    question: AskedQuestion | None = None
    """None for an approval."""

    def since(self, now: float) -> Self:
        """Return a copy with the deadline of a request that begins now."""
        return self if self.seconds is None else replace(self, deadline=now + self.seconds)

    @property
    def expiry(self) -> Approval:
        """Return the decision that applies when nobody decided in time."""
        done = "answered" if self.question else "decided"
        return Approval(
            approved=False, reason=f"nobody has {done} within {self.seconds:g} s (approvalTimeout)"
        )


def _problem(detail: Any) -> str:
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in detail["loc"])[
        1:
    ]
    match detail["type"]:
        case "missing":
            return f"'{place}' is required"
        case "extra_forbidden":
            return unknown_argument(place, AskedQuestion.model_fields)
        case "string_pattern_mismatch":
            return f"'{place}' is empty: expected a text"
    return f"'{place}': {detail['msg'][0].lower()}{detail['msg'][1:]}"
