"""Runs the very same loop without Temporal, with its effects called directly: for tests of agents, in milliseconds."""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, TypeVar

from ..activities.hooks import Hooks, conversation_text
from ..agent import Agent
from ..conversation import Conversation
from ..errors import ModelError, RunError, ToolNotRegisteredError
from ..event_data import EventType, FailedData, LoggedData
from ..events import CONVERSATION_EVENTS
from ..guardrails import Compactor, GuardrailPoint, GuardrailResult, Guardrails
from ..loop.effects import Cancelled
from ..loop.loop import AgentLoop, Outcome
from ..loop.state import LoopState, usages
from ..loop.tools import CANCELLED_TEXT
from ..messages import Message, ModelReply, ToolResult
from ..options import RunOptions
from ..protocol.run import RunResult
from ..tool_calls import Approval, ToolRequest, ToolSpec
from ..tools.context import ToolContext
from ..tools.dispatch import ToolBox
from .direct_tools import Tools, without_threads
from .waits import Waits

logger = logging.getLogger(__name__)

Value = TypeVar("Value")

ModelFunction = Callable[[Agent, list[Message]], ModelReply | Awaitable[ModelReply]]
"""Stands in for the provider: gets the agent (without tools where the model may call none) and the conversation."""

EventCallback = Callable[[str, dict[str, Any]], None]
ApproveFunction = Callable[[ToolRequest], Approval | Awaitable[Approval]]


class InProcessRun:
    """One run in this process; also its effects (see `perdure.loop.effects`).

    `steer` and `cancel` may be called from any thread. Plain tools run in threads of their own; with
    `threads=False` they are called directly, which is quicker, but nothing else happens meanwhile.
    """

    def __init__(
        self,
        agent: Agent,
        messages: Sequence[Message],
        *,
        model: ModelFunction,
        inputs: Mapping[str, Any] | None = None,
        tools: Tools = (),
        options: RunOptions | None = None,
        guardrails: Guardrails | None = None,
        compactor: Compactor | None = None,
        approve: ApproveFunction | None = None,
        on_event: EventCallback | None = None,
        on_checkpoint: Callable[[LoopState], None] | None = None,
        threads: bool = True,
    ) -> None:
        self.conversation = Conversation(messages)
        self._agent = agent
        self._inputs = dict(inputs or {})
        self._options = options or RunOptions()
        self._model = model
        self._toolbox = ToolBox(tools if threads else without_threads(tools))
        self._hooks = Hooks({"": guardrails or Guardrails()}, {"": compactor} if compactor else {})
        self._points = frozenset(point for point in ("input", "output", "tool") if getattr(guardrails, point, None))
        self._compactor = compactor
        self._approve = approve
        self._on_event = on_event
        self._on_checkpoint = on_checkpoint
        self._steering: deque[str] = deque()
        self._waits = Waits()
        self._specs: dict[str, ToolSpec] = {}

    async def run(self) -> RunResult:
        """Run to the end. Raises `RunError` with the conversation."""
        self._waits.begin()
        self._find_tools()
        loop = AgentLoop(
            self,
            self.conversation,
            self._options,
            tools=self._specs,
            guarded=self._points,
            compacted=self._compactor is not None,
            structured=bool(self._agent.outputs),
        )
        try:
            return self._result(await loop.run(), loop.state)
        except RunError as error:
            error.messages = list(self.conversation.messages)
            raise
        except Exception as error:
            self.emit("failed", loop.state.iteration, FailedData(kind="internal", message=f"{error!r}"))
            raise

    def _find_tools(self) -> None:
        inventory = self._toolbox.describe(self._agent)
        if inventory.missing:
            name, kind = next(iter(inventory.missing.items()))
            error = ToolNotRegisteredError(
                f"No handler registered for tool: {name} (kind: {kind})", messages=self.conversation.messages
            )
            self.emit("failed", 0, FailedData(kind=error.kind, message=str(error)))
            raise error
        self._specs = {spec.name: spec for spec in inventory.tools}

    def _result(self, outcome: Outcome, state: LoopState) -> RunResult:
        return RunResult(
            output=outcome.output,
            iterations=state.iterations,
            messages=list(self.conversation.messages),
            usage=state.usage,
            is_incomplete=outcome.is_incomplete,
            iteration_usage=usages(state.iteration_usage),
        )

    def steer(self, text: str) -> None:
        """Send the agent a message (§13.5)."""
        self._steering.append(text)

    def cancel(self) -> None:
        """End the run at its next check point, and whatever it waits for at once (§13.2)."""
        self._waits.cancel()

    def cancelled(self) -> bool:
        return self._waits.cancelled

    def has_steering(self) -> bool:
        return bool(self._steering)

    def drain_steering(self) -> list[str]:
        return [self._steering.popleft() for _ in range(len(self._steering))] if self._steering else []

    def now(self) -> float:
        return time.time()

    def random(self) -> float:
        return random.random()

    def emit(self, type: EventType, iteration: int, data: LoggedData, *, call_id: str | None = None) -> None:
        if self._on_event is None:
            return
        seen: dict[str, Any] = {**data}
        if type in CONVERSATION_EVENTS:
            seen["messages"] = list(self.conversation.messages)
        try:
            self._on_event(type, seen)
        except Exception:
            logger.exception("on_event failed for a %s event; the run goes on", type)

    async def checkpoint(self, state: LoopState) -> None:
        if self._on_checkpoint:
            self._on_checkpoint(state)
        await asyncio.sleep(0)  # Others get their turn, even when neither model nor tools ever wait.

    async def sleep(self, seconds: float, why: str) -> None:
        await self._unless_cancelled(asyncio.sleep(seconds))

    async def call_model(self, conversation: Conversation, iteration: int, *, with_tools: bool) -> ModelReply:
        agent = self._agent if with_tools else self._agent.model_copy(update={"tools": None})
        return await self._ask(agent, list(conversation.messages))

    async def _ask(self, agent: Agent, messages: list[Message]) -> ModelReply:
        try:
            reply = self._model(agent, messages)
            return reply if isinstance(reply, ModelReply) else await self._unless_cancelled(reply)
        except (ModelError, Cancelled):
            raise
        except Exception as error:
            raise ModelError(
                f"the model function raised {error!r}", kind="invalid_response", provider="in process"
            ) from error

    async def run_tool(self, request: ToolRequest) -> ToolResult:
        execution = self._toolbox.execute(
            self._agent,
            request.name,
            request.arguments,
            self._inputs,
            ToolContext(iteration=request.iteration, call_id=request.call_id),
            timeout=self._specs[request.name].timeout or self._options.tool_timeout,
        )
        try:
            return await self._waits.until(execution, grace=self._options.cancel_grace)
        except Cancelled:
            return ToolResult.failure(CANCELLED_TEXT, kind="cancelled", status="cancelled")

    async def judge_input(self, conversation: Conversation) -> GuardrailResult:
        return await self._judge("input", conversation.messages)

    async def judge_output(self, message: Message) -> GuardrailResult:
        return await self._judge("output", message)

    async def judge_tool(self, request: ToolRequest) -> GuardrailResult:
        return await self._judge("tool", request.name, request.arguments)

    async def _judge(self, point: GuardrailPoint, *subject: Any) -> GuardrailResult:
        # Copies, as on a worker: what a guardrail does to them changes nothing.
        return await self._unless_cancelled(self._hooks.judge("", point, *deepcopy(subject)))

    async def compact(self, conversation: Conversation, head: int, drop: int) -> str:
        dropped = deepcopy(conversation.messages[head : head + drop])
        if not callable(self._compactor):
            return (await self._ask(*_compaction(self._compactor, dropped))).message.text
        summary = self._compactor(dropped)
        return str(await self._unless_cancelled(summary) if inspect.isawaitable(summary) else summary)

    async def approve(self, request: ToolRequest) -> Approval:
        if self._approve is None:
            return Approval(approved=False, reason="nobody is there to approve it")
        verdict = self._approve(request)
        return verdict if isinstance(verdict, Approval) else await self._unless_cancelled(verdict)

    async def _unless_cancelled(self, effect: Awaitable[Value]) -> Value:
        """The effect's result; gives it up with `Cancelled` when the run is cancelled first."""
        if not self._waits.cancelled:
            return await self._waits.until(effect)
        if inspect.iscoroutine(effect):
            effect.close()
        raise Cancelled


def _compaction(compactor: Any, dropped: Sequence[Message]) -> tuple[Agent, list[Message]]:
    """The agent that summarises, and what it is told."""
    from ..prompty.load import load
    from ..prompty.prepare import prepare

    agent = compactor if isinstance(compactor, Agent) else load(compactor)
    return agent, prepare(agent, {"conversation": conversation_text(dropped)})
