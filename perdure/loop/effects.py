"""Everything that the loop does besides deciding: the interface to the world outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol

from ..conversation import Conversation
from ..errors import RunError
from ..event_data import EventType, HoldReason, LoggedData
from ..guardrails import GuardrailResult, JudgedOutput
from ..messages import Message, ModelReply, ToolResult
from ..tool_calls import Approval, Asked, ToolRequest
from ..unknown_outcomes import Reconciled, UnknownCall
from .limits import Allowance, ChildEnd
from .state import LoopState


class Cancelled(Exception):
    """The run was cancelled while the loop waited; what it waited for was given up (§13.2)."""


class Slept(Exception):
    """No worker took the run up for so long that the model is to be told before it is called."""


class Calling(NamedTuple):
    """How the model is called, besides its conversation."""

    iteration: int
    with_tools: bool = True
    """Whether it may call tools."""
    prompted: Literal["", "act", "answer"] = ""
    """Set where the model is told of its tools in the prompt: it may act now, or has to give its final answer."""
    step: int = 0
    """There: which of the `max_iterations` steps in which it may act this is, from 1."""
    fallback: int = 0
    """Which model of the agent's `fallback` is called, from 1; 0 for its own."""
    tools: Mapping[str, str | None] | None = None
    """The tools that it is offered, with their descriptions; None for all."""


class Effects(Protocol):
    """Implemented by the workflow on Temporal, and by the in-process runner with direct calls.

    Every effect that waits raises `Cancelled` when the run is cancelled meanwhile, except `run_tool` and `run_agent`:
    what has started is awaited for its grace period.
    """

    @property
    def version(self) -> int:
        """The `LOOP_VERSION` that the run goes by: the same at each replay, whatever worker executes it."""

    def cancelled(self) -> bool:
        """Return whether the run was cancelled."""

    def has_steering(self) -> bool:
        """Return whether steering messages wait to be read."""

    def drain_steering(self) -> list[str]:
        """The texts of all waiting steering messages, in the order they were sent; each is given once."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def random(self) -> float:
        """Return a number from [0, 1)."""

    def emit(self, type: EventType, iteration: int, data: LoggedData, *, call_id: str | None = None) -> None:
        """Add an event to the run's log; `data` is what `perdure.event_data` declares for the type."""

    async def checkpoint(self, state: LoopState) -> None:
        """Called before each iteration. It may continue the run in a new link, and then does not return."""

    async def hand_off(self, path: str) -> None:
        """Go on as the agent of that path, and then do not return.

        Returns if the run was cancelled, or has steering messages to read before.
        """

    async def sleep(self, seconds: float, why: str) -> None:
        """Wait; `why` is shown to people."""

    def is_held_for(self, reason: HoldReason) -> bool:
        """Return whether the run is held for this, instead of failing."""

    async def hold(self, error: RunError, reason: HoldReason) -> None:
        """Wait until somebody lets the run go on, which may have changed its options; without that, it would have
        failed with the error.
        """

    async def wake(self) -> None:
        """Do what `on_stale` says if no worker took the run up for `stale_after`. Raises the `RunError` of one that
        fails.
        """

    async def call_model(self, conversation: Conversation, calling: Calling) -> ModelReply:
        """Make one attempt of a model call. Raises `ModelError` when the provider or the connection to it fails, and
        `Slept` if the model is to be told of that first.
        """

    async def run_tool(self, request: ToolRequest) -> ToolResult:
        """Execute one tool call. Never raises for what the tool does: a failure is a result."""

    async def run_agent(self, request: ToolRequest, allowance: Allowance) -> ChildEnd:
        """Execute a call that is a run of another agent, within the allowance. Never raises, like `run_tool`.

        When the run is cancelled, so is the other one.
        """

    async def judge_input(self, conversation: Conversation) -> GuardrailResult:
        """Return the input guardrail's verdict on what the model is about to be sent (§13.4)."""

    async def prepare_tools(self, conversation: Conversation, iteration: int) -> GuardrailResult:
        """Return which tools the model is offered in this iteration: the `rewrite` has their descriptions, by name."""

    async def judge_output(self, message: Message) -> JudgedOutput:
        """Return the output guardrail's verdict on the model's reply, and whether a rewritten answer fits `outputs`."""

    async def judge_tool(self, request: ToolRequest) -> GuardrailResult:
        """Return the tool guardrail's verdict on one call."""

    async def compact(self, conversation: Conversation, head: int, drop: int) -> str:
        """Summarise the `drop` messages after the first `head`.

        After any exception, the loop uses the built-in summary.
        """

    async def check_approval(self, request: ToolRequest) -> GuardrailResult:
        """Return whether a person must approve the call, by the tool's own function (`ToolSpec.approval_check`): see
        `ask`.
        """

    def idempotency_key(self, request: ToolRequest) -> str:
        """Return the key that each attempt of the call has, and no other call."""

    async def reconcile(self, request: ToolRequest, earlier: UnknownCall) -> Reconciled:
        """Return what the tool's own function finds out about an earlier, equal call. Never raises for what it does."""

    def misfits(self, request: ToolRequest) -> list[str]:
        """Return why the call can't be executed with its arguments, as far as that is known without its function."""

    async def approve(self, request: ToolRequest, asked: Asked) -> Approval:
        """Wait until a person approves or denies the call, or answers the question, or `asked.deadline` has passed."""
