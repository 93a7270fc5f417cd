"""The effects of the loop: its interface to the outside world."""

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
    """The run was cancelled while the loop waited; the wait is over (§13.2)."""


class Calling(NamedTuple):
    """The options of one model call, besides its conversation."""

    iteration: int
    with_tools: bool = True
    """Whether it may call tools."""
    prompted: Literal["", "act", "answer"] = ""
    """Set if the prompt describes the tools to the model: `act` if it may act now, `answer` if it
    must give its final answer."""
    step: int = 0
    """With `prompted`: the current step of the `max_iterations` in which the model may act, from
    1."""
    fallback: int = 0
    """The index of the model in the agent's `fallback`, from 1; 0 for the agent's own model."""
    tools: Mapping[str, str | None] | None = None
    """The tools offered to it, with their descriptions; None for all."""


class Effects(Protocol):
    """The effects of a run: implemented by the workflow on Temporal, and by the in-process runner
    with direct calls.

    Every effect that waits raises `Cancelled` when the run is cancelled meanwhile, except
    `run_tool` and `run_agent`: these wait for a call that has started, for its grace period.
    """

    @property
    def version(self) -> int:
        """The `LOOP_VERSION` of the run: the same at each replay, on any worker."""

    def cancelled(self) -> bool:
        """Return whether the run was cancelled."""

    def has_steering(self) -> bool:
        """Return whether unread steering messages wait."""

    def drain_steering(self) -> list[str]:
        """The texts of all waiting steering messages, in the order they were sent; each is returned
        once.
        """

    def now(self) -> float:
        """Seconds since the epoch."""

    def random(self) -> float:
        """Return a number from [0, 1)."""

    def emit(
        self, type: EventType, iteration: int, data: LoggedData, *, call_id: str | None = None
    ) -> None:
        """Add an event to the run's log; `perdure.event_data` declares the `data` of each type."""

    async def checkpoint(self, state: LoopState) -> None:
        """Called before each iteration. It may continue the run in a new link, and then does not
        return.
        """

    async def hand_off(self, path: str) -> None:
        """Continue as the agent of that path, and then do not return.

        Returns if the run was cancelled, or has steering messages to read first.
        """

    async def sleep(self, seconds: float, why: str) -> None:
        """Wait; people see `why`."""

    def is_held_for(self, reason: HoldReason) -> bool:
        """Return whether the run is held for this reason, instead of failing."""

    async def hold(self, error: RunError, reason: HoldReason) -> None:
        """Wait until a person resumes the run, perhaps with other options; without a hold, it would
        have failed with the error.
        """

    async def call_model(self, conversation: Conversation, calling: Calling) -> ModelReply:
        """Make one attempt of a model call. Raises `ModelError` when the provider or the connection
        to it fails.
        """

    async def run_tool(self, request: ToolRequest) -> ToolResult:
        """Execute one tool call. Never raises an error of the tool: a failure is a result."""

    async def run_agent(self, request: ToolRequest, allowance: Allowance) -> ChildEnd:
        """Execute a call that is a run of another agent, within the allowance. Never raises, like
        `run_tool`.

        Cancelling the run also cancels the called one.
        """

    async def judge_input(self, conversation: Conversation) -> GuardrailResult:
        """Return the input guardrail's verdict on the messages that go to the model (§13.4)."""

    async def prepare_tools(self, conversation: Conversation, iteration: int) -> GuardrailResult:
        """Return the tools offered to the model in this iteration: the `rewrite` maps their names
        to their descriptions.
        """

    async def judge_output(self, message: Message) -> JudgedOutput:
        """Return the output guardrail's verdict on the model's reply, and whether a rewritten
        answer fits `outputs`.
        """

    async def judge_tool(self, request: ToolRequest) -> GuardrailResult:
        """Return the tool guardrail's verdict on one call."""

    async def compact(self, conversation: Conversation, head: int, drop: int) -> str:
        """Summarise the `drop` messages after the first `head`.

        After any exception, the loop uses the built-in summary.
        """

    async def check_approval(self, request: ToolRequest) -> GuardrailResult:
        """Return whether a person must approve the call, as `ask`, by the tool's own function
        (`ToolSpec.approval_check`)."""

    def idempotency_key(self, request: ToolRequest) -> str:
        """Return the key that all attempts of the call share, and no other call has."""

    async def reconcile(self, request: ToolRequest, earlier: UnknownCall) -> Reconciled:
        """Return the outcome of an earlier, equal call, by the tool's own function. Never raises an
        error of the function.
        """

    def misfits(self, request: ToolRequest) -> list[str]:
        """Return the reasons why the arguments do not fit the tool, from the checks that do not
        need its function.
        """

    async def approve(self, request: ToolRequest, asked: Asked) -> Approval:
        """Wait until a person approves or denies the call, or answers the question, or
        `asked.deadline` has passed.
        """
