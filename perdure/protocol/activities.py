"""The names, arguments and errors of the activities: all that the workflow knows of them."""

from __future__ import annotations

from typing import Literal

from ..agent import Agent
from ..conversation import ConversationRef
from ..exchanged import Exchanged
from ..guardrails import GuardrailPoint
from ..json_types import JsonObject
from ..messages import Message, ToolResult
from ..tool_calls import ToolRequest
from .run import RecordedOptions

INVENTORY = "perdure.inventory"
CALL_MODEL = "perdure.call_model"
RUN_TOOL = "perdure.run_tool"
JUDGE = "perdure.judge"
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

JUDGE_SECONDS = 60.0
"""A guardrail that takes longer denies."""
COMPACT_SECONDS = 300.0
"""A compactor that takes longer has failed."""
STREAM_SECONDS = 0.1
"""How often a model call tells what it has said while text is streaming, and a watcher looks for it."""


class InventoryInput(Exchanged):
    """Sent only to a local activity, whose input is not recorded."""

    agent: Agent
    inputs: JsonObject
    options: RecordedOptions
    messages: list[Message]
    version: int
    digest: str


class ConversationInput(Exchanged):
    """Base of every input that records a part of the conversation."""

    conversation: ConversationRef


class ModelInput(ConversationInput):
    """One attempt of a model call."""

    iteration: int
    with_tools: bool = True


class CompactInput(ConversationInput):
    """The `drop` messages after the first `head` are to be summarised."""

    head: int
    drop: int


class JudgeInput(Exchanged):
    """What a guardrail is asked about: a conversation (input), a message (output) or a request (tool)."""

    point: GuardrailPoint
    conversation: ConversationRef | None = None
    message: Message | None = None
    request: ToolRequest | None = None


class ToolInput(Exchanged):
    """One execution of a tool."""

    request: ToolRequest
    timeout: float
    """In seconds."""


class PieceInput(Exchanged):
    """The messages from index `start` to before `end` of a conversation that another link's history holds."""

    run_id: str
    reference: ConversationRef
    start: int
    end: int


class StreamedText(Exchanged):
    """The heartbeat details of a streaming model call: everything that this attempt has said so far."""

    iteration: int
    attempt: int
    text: str = ""
    thinking: str = ""


class ModelFailure(Exchanged):
    """A `ModelError` as the details of an `ApplicationError`."""

    kind: str
    provider: str
    status: int | None = None
    request_id: str | None = None
    retry_after: float | None = None
    address: str | None = None
    model: str | None = None


def lost_tool(name: str, *, status: Literal["error", "cancelled"] = "error") -> ToolResult:
    """What the model is told about an execution that was lost together with its worker, and is not repeated."""
    text = f"Error: Tool '{name}' failed: its worker was lost while it ran; whether it took effect is not known"
    return ToolResult.failure(text, kind="worker_lost", status=status)
