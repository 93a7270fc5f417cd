"""The contract between the workflow and the activities: names, arguments and error types."""

from __future__ import annotations

from typing import Literal

from temporalio.api.enums.v1 import TaskQueueKind
from temporalio.api.taskqueue.v1 import TaskQueue

from ..agents import Agent, Model, RecordedModel
from ..conversation import ConversationRef
from ..guardrails import GuardrailPoint
from ..messages import Exchanged, Message, ToolResult, Usage, unless_empty, unless_none
from ..tool_calls import ToolRequest
from .later import Completion
from .outcome import HeldUp
from .pauses import PAUSED
from .run import RunInput

INVENTORY = "perdure.inventory"
CALL_MODEL = "perdure.call_model"
RUN_TOOL = "perdure.run_tool"
TOOL_PREFIX = "perdure.tool."
"""Prefix of the activity type that executes one tool; the tool's name follows."""
FINISH_CALL = "perdure.finish_call"
"""Turns the value by which another system finished a call into the call's result."""
RECONCILE = "perdure.reconcile"
"""Asks a tool's own function for the outcome of an earlier call whose outcome is unknown."""
JUDGE = "perdure.judge"
INSTRUCT = "perdure.instruct"
COMPACT = "perdure.compact"
RECORD = "perdure.record"
LOAD_PIECE = "perdure.load_piece"
MEASURE = "perdure.measure"

CONFIGURATION_ERROR = "configuration"
"""Error type: the worker lacks something that the run needs."""
MODEL_ERROR = "model_error"
"""Error type: the provider, or the connection to it, failed. The details are a `ModelFailure`."""
INTERNAL_ERROR = "internal"
"""Error type: a bug of perdure."""

NOT_HERE = "ToolNotHere"
"""Error type: this worker lacks a tool, guardrail or compactor that another one may have. The
details are a `MissingPart`."""

JUDGE_SECONDS = 60.0
"""A guardrail that takes longer denies."""
ASKING_SECONDS = 60.0
"""The time limit for kinds of tools to list their tools."""
LOCAL_SECONDS = 2.0
"""The time limit of a tool that runs as a local activity: the workflow task waits for it."""
COMPACT_SECONDS = 300.0
"""A compactor that takes longer has failed."""
_READERS = "/readers"


def readers_queue(task_queue: str) -> TaskQueue:
    """Return the queue that the readers of a task queue's runs poll, each under the id of its run.

    The queue stays empty. It is a worker-specific queue, which has a single partition, so that
    describing it lists every reader.
    """
    kind = TaskQueueKind.TASK_QUEUE_KIND_STICKY
    return TaskQueue(name=f"{task_queue}{_READERS}", kind=kind, normal_name=task_queue)


class Offer(Exchanged):
    """Marks an offer of the run's call to another worker, after the first one lacked something."""

    seconds: float
    """The time that a worker which lacks it leaves the task to the next one."""
    starts: int = 1
    """The number of workers with which the tool's call may be lost; with 1, it is started once."""


class InventoryInput(Exchanged):
    """A request for the inventory of the calling run."""

    beginning: RunInput | None = None
    """The run's input. Sent only to a local activity, whose input is not recorded. Without it, the
    worker reads the run's history."""
    offer: Offer | None = None


class ConversationInput(Exchanged):
    """Base of every input that records a part of the conversation."""

    conversation: ConversationRef


class CallSoFar(Exchanged):
    """The progress that the attempts of a model call leave to the next one."""

    attempt: int = 1
    """The attempt of the activity that reports this."""
    lost: int = 0
    """The number of earlier attempts that called the model and were lost together with their
    workers."""
    lost_chars: int = 0
    """The characters of text and thinking known to have come from the model in these attempts."""

    def with_lost(self, attempts: int, chars: int) -> CallSoFar:
        """Return a copy that counts further lost attempts and the characters that came in them."""
        return self.model_copy(
            update={"lost": self.lost + attempts, "lost_chars": self.lost_chars + chars}
        )


class ModelInput(ConversationInput):
    """One attempt of a model call."""

    iteration: int
    with_tools: bool = True
    earlier: int = unless_empty(0)
    """The number of earlier model calls in the same iteration."""
    prompted: Literal["", "act", "answer"] = unless_empty("")
    """Set if the prompt describes the tools to the model: `act` if it may act now, `answer` if it
    must give its final answer."""
    step: int = unless_empty(0)
    """With `prompted`: the current step of the `max_iterations` in which the model may act, from
    1."""
    fallback: int = unless_empty(0)
    """The index of the model in the agent's `fallback`, from 1; 0 for the agent's own model."""
    before: CallSoFar | None = unless_empty(None)
    """The progress of this call's earlier activities."""
    mock: int = unless_empty(0)
    """The index of the recorded answer (`Inventory.mock_responses`) that replaces the model's, from
    1; 0 for none."""
    offer: Offer | None = unless_empty(None)
    tools: dict[str, str | None] | None = unless_none()
    """The tools offered to the model, with their descriptions, if a function chose them; None for
    all."""
    model: RecordedModel | None = unless_empty(None)
    """The model that this link calls instead of the agent's own, since a person resumed the run
    with it."""

    def model_of(self, agent: Agent) -> Model:
        """Return the model that this attempt calls."""
        return (
            self.model
            if self.model is not None and not self.fallback
            else agent.models[self.fallback]
        )


class CompactInput(ConversationInput):
    """Asks for a summary of the `drop` messages after the first `head`."""

    head: int
    drop: int
    offer: Offer | None = unless_empty(None)


class InstructInput(Exchanged):
    """Asks the function that the options name for the agent's instructions."""

    offer: Offer | None = unless_empty(None)


class JudgeInput(Exchanged):
    """The subject of a guardrail: a conversation (input), a message (output) or a request (tool,
    approval).
    """

    point: GuardrailPoint | Literal["approval", "tools"]
    """`approval` calls the tool's own function (`ToolSpec.approval_check`), `tools` that of
    `RunOptions.prepare_tools`."""
    iteration: int = unless_empty(0)
    """Set for `tools`."""
    conversation: ConversationRef | None = None
    message: Message | None = None
    request: ToolRequest | None = None
    offer: Offer | None = unless_empty(None)


class ToolInput(Exchanged):
    """One execution of a tool."""

    request: ToolRequest
    timeout: float
    """In seconds."""
    earlier: int = unless_empty(0)
    """The number of earlier executions of this call, all of which failed (`ToolSpec.retries`)."""
    retries_left: int = unless_empty(0)
    """The number of further executions if this one fails."""
    offer: Offer | None = unless_empty(None)


class ReconcileInput(Exchanged):
    """A call that may repeat an equal one; `key` is the earlier call's."""

    request: ToolRequest
    idempotency_key: str
    timeout: float
    """In seconds."""
    offer: Offer | None = unless_empty(None)


class FinishInput(Exchanged):
    """The value by which another system finished a tool call."""

    request: ToolRequest
    completion: Completion


class PieceInput(Exchanged):
    """The messages from index `start` up to `end` (exclusive) of a conversation that another link's
    history holds.
    """

    workflow_id: str = unless_empty("")
    """"" for the calling run."""
    of_session: bool = unless_empty(False)
    """Whether `workflow_id` is a session."""
    run_id: str
    reference: ConversationRef
    start: int
    end: int


class StreamedText(Exchanged):
    """The heartbeat details of a streaming model call: all text of this attempt up to now."""

    iteration: int
    attempt: int
    text: str = ""
    thinking: str = ""
    so_far: CallSoFar | None = unless_empty(None)
    held_up: HeldUp | None = unless_empty(None)
    """Set while the call waits, together with those of other runs, for a provider that refuses all
    calls."""

    @property
    def chars(self) -> int:
        """Return the number of characters of text and thinking received."""
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
"""The `kind` of the result of a call that was lost with its worker."""
WORKER_SHUTDOWN = "WorkerShutdown"
"""The error type by which Temporal's SDK reports an activity that a stopping worker did not
await."""


SUSPECT_WAITS = "SuspectWaits"
"""Error type: the worker is executing another call that is suspected of crashing workers."""
REFUSED = (SUSPECT_WAITS, NOT_HERE, PAUSED)
"""Error types of an attempt that its worker refused: Temporal counts the attempt, but nothing was
executed."""
NOT_EXECUTED = (CONFIGURATION_ERROR, "NotFoundError", *REFUSED)
"""Error types of an activity that did not begin its tool. An error that a tool raises is a
result."""
TOOL_STARTS = 2
"""The number of workers that a repeatable tool's call may be lost with before it is suspected of
crashing them."""


def lost_tool(name: str, *, status: Literal["error", "cancelled"] = "error") -> ToolResult:
    """Return the result for a call whose execution was lost with its worker and is not repeated."""
    text = f"Error: Tool '{name}' failed: its worker was lost while it ran"
    return ToolResult.failure(text, kind=WORKER_LOST, status=status, outcome_unknown=True)


def ended_unseen(name: str, *, was_started: bool) -> ToolResult:
    """Return the result of a call that the cancelled run did not wait for: it was lost, or no
    worker started it.
    """
    if was_started:
        return lost_tool(name, status="cancelled")
    return ToolResult.cancellation()
