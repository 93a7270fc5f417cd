"""What the loop needs from the world: everything that is not a decision."""

from __future__ import annotations

from typing import Any, Protocol

from ..conversation import Conversation
from ..events import EventType
from ..guardrails import GuardrailResult
from ..messages import Message, ModelReply, ToolResult
from ..tool_calls import Approval, ToolRequest
from .state import LoopState


class Cancelled(Exception):
    """The run is being cancelled: what was awaited was given up (§13.2)."""


class Effects(Protocol):
    """Bound to Temporal by the workflow, and to direct calls by the in-process runner.

    An effect that waits gives up with `Cancelled` when the run is cancelled meanwhile, except
    `run_tool`: a started tool is awaited for its grace period.
    """

    def cancelled(self) -> bool: ...

    def has_steering(self) -> bool: ...

    def drain_steering(self) -> list[str]:
        """All pending texts, in the order they were sent; each is given once."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def random(self) -> float:
        """A number from [0, 1)."""

    def emit(self, type: EventType, iteration: int, data: dict[str, Any], *, call_id: str | None = None) -> None: ...

    async def checkpoint(self, state: LoopState) -> None:
        """Between iterations: a chance to carry on elsewhere. May not return."""

    async def sleep(self, seconds: float, why: str) -> None: ...

    async def call_model(self, conversation: Conversation, iteration: int, *, with_tools: bool) -> ModelReply:
        """One attempt. Raises `ModelError` when the provider or the way to it failed."""

    async def run_tool(self, request: ToolRequest) -> ToolResult:
        """Never raises for what the tool did: its failure is a result."""

    async def judge_input(self, conversation: Conversation) -> GuardrailResult:
        """The input guardrail's verdict on what the model is about to be sent (§13.4)."""

    async def judge_output(self, message: Message) -> GuardrailResult:
        """The output guardrail's verdict on the model's reply."""

    async def judge_tool(self, request: ToolRequest) -> GuardrailResult:
        """The tool guardrail's verdict on one call."""

    async def compact(self, conversation: Conversation, head: int, drop: int) -> str:
        """Summarise `drop` messages behind the first `head`; "" or any exception falls back to the built-in summary."""

    async def approve(self, request: ToolRequest) -> Approval: ...
