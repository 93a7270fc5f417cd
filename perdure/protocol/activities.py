"""The names, arguments and errors of the activities: all that the workflow knows of them."""

from __future__ import annotations

from typing import Any, Literal

from temporalio.api.enums.v1 import TaskQueueKind
from temporalio.api.taskqueue.v1 import TaskQueue

from ..agents import Agent, Model, RecordedModel
from ..conversation import ConversationRef
from ..guardrails import GuardrailPoint
from ..later import Completion
from ..messages import Exchanged, JsonObject, Message, ToolResult, Usage, unless_empty, unless_none
from ..tool_calls import ToolRequest
from .brakes import PAUSED
from .outcome import HeldUp
from .run import Lineage, RecordedOptions, TurnOf

INVENTORY = "perdure.inventory"
CALL_MODEL = "perdure.call_model"
END_RESPONSE = "perdure.end_response"
RUN_TOOL = "perdure.run_tool"
TOOL_PREFIX = "perdure.tool."
"""Before a tool's name: the type of the activity that executes this tool alone."""
FINISH_CALL = "perdure.finish_call"
"""Makes the result of a call of what another system has finished it with."""
RECONCILE = "perdure.reconcile"
"""Asks a tool's own function what became of a call of unknown outcome."""
JUDGE = "perdure.judge"
INSTRUCT = "perdure.instruct"
COMPACT = "perdure.compact"
RECORD = "perdure.record"
LOAD_PIECE = "perdure.load_piece"
MEASURE = "perdure.measure"
END_UNSTARTED = "perdure.end_unstarted"

CONFIGURATION_ERROR = "configuration"
"""Error type: the worker lacks something that the run needs."""
MODEL_ERROR = "model_error"
"""Error type: the provider, or the connection to it, failed. The details are a `ModelFailure`."""
INTERNAL_ERROR = "internal"
"""Error type: a bug of perdure."""

NOT_HERE = "ToolNotHere"
"""Error type: this worker lacks a tool, guardrail or compactor that another one may have. The details are a `Lacking`.
"""

JUDGE_SECONDS = 60.0
"""A guardrail that takes longer denies."""
ASKING_SECONDS = 60.0
"""How long kinds of tools may take to find out what they offer."""
LOCAL_SECONDS = 2.0
"""A tool that is executed as a local activity and takes longer is given up: the workflow waits for it."""
END_SECONDS = 10.0
"""For so long, a cancelled run tries to have the provider end its response."""
COMPACT_SECONDS = 300.0
"""A compactor that takes longer has failed."""
_READERS = "/readers"


def readers_queue(task_queue: str) -> TaskQueue:
    """Return the queue that the readers of a task queue's runs poll, each under the id of its run.

    Nothing is ever put into it. It is of the kind that workers have for themselves, of which each has one partition:
    so whoever describes it sees all of them.
    """
    kind = TaskQueueKind.TASK_QUEUE_KIND_STICKY
    return TaskQueue(name=f"{task_queue}{_READERS}", kind=kind, normal_name=task_queue)


class Beginning(Exchanged):
    """What a run begins with."""

    agent: Agent
    inputs: JsonObject
    deps: Any = None
    options: RecordedOptions
    messages: list[Message]
    """The conversation, as far as the run's input holds it."""
    reference: ConversationRef | None = None
    """Which version of it `messages` is; None for the first."""
    agents: dict[str, Agent] = {}
    lineage: Lineage | None = None
    session: TurnOf | None = None


class Offer(Exchanged):
    """Given with what the first worker that was asked could not do: whoever gets it next may lack the same."""

    seconds: float
    """For so long, a worker that lacks it leaves it to the next one."""
    starts: int = 1
    """With so many workers a tool may be lost; with 1 it is started once."""


class InventoryInput(Exchanged):
    """A question about the run that asks."""

    beginning: Beginning | None = None
    """Sent only to a local activity, whose input is not recorded. Without it, the worker reads the run's history."""
    offer: Offer | None = None


class Freshness(Exchanged):
    """After which time without a worker a call is not begun (`STALE`)."""

    seconds: float
    ready_at: float | None = None
    """Since when the run could have begun the call, in seconds since the epoch; None where that is not known."""
    may_queue: bool = unless_empty(False)
    """Whether it waits for a slot of a worker, however long that takes."""


class CallInput(Exchanged):
    """Base of the input of every call that the run makes: of the model, a tool, a guardrail, a compactor."""

    fresh: Freshness | None = unless_empty(None)
    """Only of a run with `RunOptions.stale_after`."""


class StaleAttempt(Exchanged):
    """What an attempt says that was not begun because no worker took it up for too long."""

    since: float
    until: float
    """Both in seconds since the epoch, by the server's clock."""
    attempt: int
    told: Any = None
    """What the attempt before has told by its heartbeats."""


class ConversationInput(Exchanged):
    """Base of every input that records a part of the conversation."""

    conversation: ConversationRef


class CallSoFar(Exchanged):
    """What the attempts of a model call leave to the next one."""

    attempt: int = 1
    """The attempt of the activity that says so."""
    lost: int = 0
    """How many attempts before it have asked the model, and were lost together with their workers."""
    lost_chars: int = 0
    """What the model is known to have said in these: text and thinking, in characters."""
    fallback: int = 0
    """Which model is asked (`ModelInput.fallback`)."""
    response: str = ""
    """The provider's id of the response that it makes in the background; "" for none."""
    after: int | None = None
    """The number of the last event of the response that was read."""
    text: int = 0
    """How many characters of text had been said by then."""
    thinking: int = 0
    """The same of the thinking."""

    def with_lost(self, attempts: int, chars: int) -> CallSoFar:
        """Return the same with further attempts that were lost, after so many characters were said in them."""
        return self.model_copy(update={"lost": self.lost + attempts, "lost_chars": self.lost_chars + chars})


class ModelInput(ConversationInput, CallInput):
    """One attempt of a model call."""

    iteration: int
    with_tools: bool = True
    earlier: int = unless_empty(0)
    """How often the model was called before this in the same iteration."""
    prompted: Literal["", "act", "answer"] = unless_empty("")
    """Set where the model is told of its tools in the prompt: it may act now, or has to give its final answer."""
    step: int = unless_empty(0)
    """There: which of the `max_iterations` steps in which it may act this is, from 1."""
    fallback: int = unless_empty(0)
    """Which model of the agent's `fallback` is called, from 1; 0 for its own."""
    before: CallSoFar | None = unless_empty(None)
    """What earlier activities of this call have left."""
    mock: int = unless_empty(0)
    """Which of the run's recorded answers (`Inventory.mock_responses`) stands for the model's, from 1; 0 for none."""
    offer: Offer | None = unless_empty(None)
    tools: dict[str, str | None] | None = unless_none()
    """The tools that the model is offered, with their descriptions, where a function has decided that; None for all."""
    model: RecordedModel | None = unless_empty(None)
    """The model that this link calls in place of the agent's own, since somebody has let the run go on with it."""

    def model_of(self, agent: Agent) -> Model:
        """Return the model that is called."""
        return self.model if self.model is not None and not self.fallback else agent.models[self.fallback]


class EndResponseInput(Exchanged):
    """Ends the response that the provider makes in the background for the run's model call, if it makes one."""

    left: CallSoFar | None = None
    """What earlier activities of the call have left; the one under way tells what it knows."""


class CompactInput(ConversationInput, CallInput):
    """The `drop` messages after the first `head` are to be summarised."""

    head: int
    drop: int
    offer: Offer | None = unless_empty(None)


class InstructInput(CallInput):
    """The agent's instructions are to be made, by the function that the options name."""

    offer: Offer | None = unless_empty(None)


class JudgeInput(CallInput):
    """What a guardrail is asked about: a conversation (input), a message (output) or a request (tool, approval)."""

    point: GuardrailPoint | Literal["approval", "tools"]
    """`approval` is a tool's own function (`ToolSpec.approval_check`), `tools` that of `RunOptions.prepare_tools`."""
    iteration: int = unless_empty(0)
    """Of `tools`."""
    conversation: ConversationRef | None = None
    message: Message | None = None
    request: ToolRequest | None = None
    offer: Offer | None = unless_empty(None)


class ToolInput(CallInput):
    """One execution of a tool."""

    request: ToolRequest
    timeout: float
    """In seconds."""
    earlier: int = unless_empty(0)
    """How often it was executed before this, and has failed (`ToolSpec.retries`)."""
    retries_left: int = unless_empty(0)
    """How often it is executed again, should it fail."""
    offer: Offer | None = unless_empty(None)


class ReconcileInput(CallInput):
    """A call that may repeat an equal one, which has this key."""

    request: ToolRequest
    idempotency_key: str
    timeout: float
    """In seconds."""
    offer: Offer | None = unless_empty(None)


class FinishInput(Exchanged):
    """What another system has finished a tool call with."""

    request: ToolRequest
    completion: Completion


class PieceInput(Exchanged):
    """The messages from index `start` to before `end` of a conversation that another link's history holds."""

    workflow_id: str = unless_empty("")
    """"" for the run that asks."""
    of_session: bool = unless_empty(False)
    """Whether that is a session."""
    run_id: str
    reference: ConversationRef
    start: int
    end: int


class UnstartedInput(Exchanged):
    """A child workflow that should be under way by now."""

    workflow_id: str
    run_id: str


class Unstarted(Exchanged):
    """Whether a child was ended, because no worker has executed any of it."""

    ended: bool
    why: str = ""
    """What the last worker that tried said, if one did."""


class StreamedText(Exchanged):
    """The heartbeat details of a streaming model call: everything that this attempt has said so far."""

    iteration: int
    attempt: int
    text: str = ""
    thinking: str = ""
    so_far: CallSoFar | None = unless_empty(None)
    held_up: HeldUp | None = unless_empty(None)
    """Set while the call waits, with those of other runs, for a provider that refuses all."""

    @property
    def chars(self) -> int:
        """Return how many characters of text and thinking were said."""
        return len(self.text) + len(self.thinking)


class ModelFailure(Exchanged):
    """A `ModelError` as the details of an `ApplicationError`."""

    kind: str
    provider: str
    status: int | None = None
    request_id: str | None = None
    retry_after: float | None = None
    address: str | None = None
    model: str | None = None
    limit: int | None = unless_empty(None)
    asked: int | None = unless_empty(None)
    usage: Usage | None = unless_empty(None)
    cost_usd: float | None = unless_empty(None)
    so_far: CallSoFar | None = unless_empty(None)


WORKER_LOST = "worker_lost"
"""The kind of such a result."""
WORKER_SHUTDOWN = "WorkerShutdown"
"""The error type by which Temporal's SDK reports an activity that a stopping worker did not await."""


SUSPECT_WAITS = "SuspectWaits"
"""Error type: the worker executes another call just now that may be what ends workers."""
STALE = "Stale"
"""Error type of an activity that has not begun, because no worker took it up for too long. The details are a
`StaleAttempt`."""
REFUSED = (SUSPECT_WAITS, NOT_HERE, PAUSED, STALE)
"""Error types of an attempt that its worker has refused: Temporal counts it, and nothing was executed."""
NOT_EXECUTED = (CONFIGURATION_ERROR, "NotFoundError", *REFUSED)
"""Error types of an activity that has not begun with its tool. What a tool itself raises is a result."""
TOOL_STARTS = 2
"""With so many workers a call of a tool that may be repeated is lost: it may be what brings them down."""


def lost_tool(name: str, *, status: Literal["error", "cancelled"] = "error") -> ToolResult:
    """Return what the model is told about an execution that was lost together with its worker, and is not repeated."""
    text = f"Error: Tool '{name}' failed: its worker was lost while it ran"
    return ToolResult.failure(text, kind=WORKER_LOST, status=status, outcome_unknown=True)


def ended_unseen(name: str, *, was_started: bool) -> ToolResult:
    """Return the result of a call that the cancelled run did not wait for: it was lost, or no worker has started it."""
    if was_started:
        return lost_tool(name, status="cancelled")
    return ToolResult.cancellation()
