"""Runs the very same loop without Temporal, with its effects called directly: for tests of agents, in milliseconds."""

from __future__ import annotations

import asyncio
import inspect
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from ..activities.hooks import Compactor, Hooks, conversation_text
from ..agent import Agent
from ..conversation import Conversation
from ..errors import RunError, ToolNotRegisteredError
from ..events import CONVERSATION_EVENTS, EventType
from ..guardrails import GuardrailPoint, GuardrailResult, Guardrails
from ..loop.effects import Approval, Cancelled, ToolRequest, ToolSpec
from ..loop.loop import AgentLoop
from ..loop.state import LoopState
from ..loop.tools import CANCELLED_TEXT
from ..messages import Message, ModelReply, ToolResult, Usage
from ..options import RunOptions
from ..run import RunResult
from ..tools.context import ToolContext
from ..tools.dispatch import ToolBox

ModelFunction = Callable[[Agent, list[Message]], ModelReply | Awaitable[ModelReply]]
"""Stands in for the provider: gets the agent (without tools where the model may call none) and the conversation."""

EventCallback = Callable[[str, dict[str, Any]], None]
ApproveFunction = Callable[[ToolRequest], Approval | Awaitable[Approval]]


class InProcessRun:
    """One run in this process; also its effects (see `perdure.loop.effects`)."""

    def __init__(
        self,
        agent: Agent,
        messages: Sequence[Message],
        *,
        model: ModelFunction,
        inputs: Mapping[str, Any] | None = None,
        tools: Mapping[str, Callable[..., Any]] | Sequence[Callable[..., Any]] = (),
        options: RunOptions | None = None,
        guardrails: Guardrails | None = None,
        compactor: Compactor | None = None,
        approve: ApproveFunction | None = None,
        on_event: EventCallback | None = None,
        on_checkpoint: Callable[[LoopState], None] | None = None,
    ) -> None:
        self.conversation = Conversation(messages)
        self._agent = agent
        self._inputs = dict(inputs or {})
        self._options = options or RunOptions()
        self._model = model
        self._toolbox = ToolBox(tools)
        self._hooks = Hooks({"": guardrails or Guardrails()}, {"": compactor} if compactor else {})
        self._points = frozenset(point for point in ("input", "output", "tool") if getattr(guardrails, point, None))
        self._compactor = compactor
        self._approve = approve
        self._on_event = on_event
        self._on_checkpoint = on_checkpoint
        self._steering: list[str] = []
        self._cancelled = asyncio.Event()
        self.specs: dict[str, ToolSpec] = {}

    async def run(self) -> RunResult:
        """Run to the end. Raises `RunError` with the conversation."""
        inventory = self._toolbox.describe(self._agent)
        if inventory.missing:
            name, kind = next(iter(inventory.missing.items()))
            raise ToolNotRegisteredError(
                f"No handler registered for tool: {name} (kind: {kind})", messages=self.conversation.messages
            )
        self.specs = {spec.name: spec for spec in inventory.tools}
        loop = AgentLoop(
            self,
            self.conversation,
            self._options,
            tools=self.specs,
            guarded=self._points,
            compacted=self._compactor is not None,
            structured=bool(self._agent.outputs),
        )
        try:
            outcome = await loop.run()
        except RunError as error:
            error.messages = list(self.conversation.messages)
            raise
        return RunResult(
            output=outcome.output,
            iterations=loop.state.iterations,
            messages=list(self.conversation.messages),
            usage=loop.state.usage,
            is_incomplete=outcome.is_incomplete,
            iteration_usage=[
                Usage.model_validate(dict(zip(Usage.model_fields, counts, strict=True)))
                for counts in loop.state.iteration_usage
            ],
        )

    def steer(self, text: str) -> None:
        """Send the agent a message (§13.5)."""
        self._steering.append(text)

    def cancel(self) -> None:
        """End the run at its next check point, and whatever it waits for at once (§13.2)."""
        self._cancelled.set()

    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def has_steering(self) -> bool:
        return bool(self._steering)

    def drain_steering(self) -> list[str]:
        texts, self._steering = self._steering, []
        return texts

    def now(self) -> float:
        return time.time()

    def random(self) -> float:
        return random.random()

    def emit(self, type: EventType, iteration: int, data: dict[str, Any], *, call_id: str | None = None) -> None:
        if self._on_event is None:
            return
        if type in CONVERSATION_EVENTS:
            data = {**data, "messages": list(self.conversation.messages)}
        self._on_event(type, data)

    async def checkpoint(self, state: LoopState) -> None:
        if self._on_checkpoint:
            self._on_checkpoint(state)

    async def sleep(self, seconds: float, why: str) -> None:
        await self._unless_cancelled(asyncio.sleep(seconds))

    async def call_model(self, conversation: Conversation, iteration: int, *, with_tools: bool) -> ModelReply:
        agent = self._agent if with_tools else self._agent.model_copy(update={"tools": None})
        reply = self._model(agent, list(conversation.messages))
        if isinstance(reply, ModelReply):
            return reply
        return await self._unless_cancelled(reply)

    async def run_tool(self, request: ToolRequest) -> ToolResult:
        spec = self.specs[request.name]
        context = ToolContext(iteration=request.iteration, call_id=request.call_id)
        execution = asyncio.ensure_future(
            self._toolbox.execute(
                self._agent,
                request.name,
                request.arguments,
                self._inputs,
                context,
                timeout=spec.timeout or self._options.tool_timeout,
            )
        )
        try:
            return await self._unless_cancelled(asyncio.shield(execution))
        except Cancelled:
            done, _ = await asyncio.wait([execution], timeout=self._options.cancel_grace)
            if done:
                return execution.result()
            execution.cancel()
            return ToolResult.failure(CANCELLED_TEXT, kind="cancelled", status="cancelled")

    async def judge(
        self, point: GuardrailPoint, conversation: Conversation | None, subject: Message | ToolRequest | None
    ) -> GuardrailResult:
        arguments: tuple[Any, ...] = (subject,)
        if isinstance(subject, ToolRequest):
            arguments = (subject.name, subject.arguments)
        elif point == "input" and conversation is not None:
            arguments = (list(conversation.messages),)
        return await self._unless_cancelled(self._hooks.judge("", point, *arguments))

    async def compact(self, conversation: Conversation, head: int, drop: int) -> str:
        assert self._compactor is not None
        dropped = conversation.messages[head : head + drop]
        if not callable(self._compactor):
            reply = self._model(self._agent, [Message.user(conversation_text(dropped))])
            return (reply if isinstance(reply, ModelReply) else await self._unless_cancelled(reply)).message.text
        summary = self._compactor(dropped)
        return str(await self._unless_cancelled(summary) if inspect.isawaitable(summary) else summary)

    async def approve(self, request: ToolRequest) -> Approval:
        if self._approve is None:
            return Approval(approved=False, reason="nobody is there to approve it")
        verdict = self._approve(request)
        return verdict if isinstance(verdict, Approval) else await self._unless_cancelled(verdict)

    async def _unless_cancelled(self, effect: Awaitable[Any]) -> Any:
        """The effect's result; gives it up with `Cancelled` when the run is cancelled first."""
        task = asyncio.ensure_future(effect)
        cancelled = asyncio.create_task(self._cancelled.wait())
        try:
            await asyncio.wait([task, cancelled], return_when=asyncio.FIRST_COMPLETED)
        finally:
            cancelled.cancel()
        if task.done():
            return task.result()
        task.cancel()
        raise Cancelled
