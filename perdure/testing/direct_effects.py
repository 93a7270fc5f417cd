"""The loop's effects as direct calls in this process (see `perdure.loop.effects`), with plain tools
and waits.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..activities.hooks import Hooks, summary_of
from ..agents import Agent
from ..conversation import Conversation
from ..errors import ModelError, RunError
from ..event_data import EventType, HoldReason, LoggedData
from ..events import CONVERSATION_EVENTS, progress_data
from ..guardrails import (
    Compactor,
    GuardrailPoint,
    GuardrailResult,
    Guardrails,
    JudgedOutput,
    PrepareTools,
)
from ..loop.effects import Calling, Cancelled, Effects
from ..loop.limits import Allowance, ChildEnd
from ..loop.state import LOOP_VERSION, LoopState
from ..loop.verdicts import checked_verdict
from ..messages import Message, ModelReply, ToolResult
from ..options import RunOptions
from ..protocol.activities import JUDGE_SECONDS
from ..tool_calls import Approval, Asked, ToolProgress, ToolRequest, ToolSpec, misfit
from ..tool_results import CallPlace, SizeLimits, choose
from ..tools.context import ToolContext, context_with, open_deps
from ..tools.dispatch import ToolBox
from ..tools.handlers import Toolset
from ..tools.validation import call_problems
from ..unknown_outcomes import Reconciled, UnknownCall
from .direct_model import PROVIDER, ModelFunction, compaction, prompted_call, read_reply
from .script import ScriptedReply


class Waits:
    """The waits of one run's tasks. An effect that never waits costs no task and no turn of the
    event loop.
    """

    def __init__(self) -> None:
        self.cancelled = False
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self._graces: dict[asyncio.Task[Any], float] = {}
        self._given_up: set[asyncio.Task[Any]] = set()

    def begin(self) -> None:
        """Make the current event loop the run's. Raises RuntimeError without a running loop."""
        self._event_loop = asyncio.get_running_loop()

    def cancel(self) -> None:
        """Abandon every wait after its grace period. Callable from any thread, at any time."""
        self.cancelled = True
        if self._event_loop is not None and not self._event_loop.is_closed():
            # After the current callback: only a waiting task can be interrupted without side
            # effects.
            self._event_loop.call_soon_threadsafe(self._interrupt)

    async def until(self, effect: Awaitable[Value], *, grace: float = 0.0) -> Value:
        """Return the effect's result. Raises `Cancelled`, and ends the effect, `grace` seconds
        after the run is cancelled.
        """
        task = asyncio.current_task(self._event_loop)
        assert task is not None
        self._graces[task] = grace
        try:
            return await effect
        except asyncio.CancelledError:
            if task not in self._given_up or task.uncancel():
                raise
            raise Cancelled from None
        finally:
            del self._graces[task]
            self._given_up.discard(task)

    def _interrupt(self) -> None:
        assert self._event_loop is not None
        for task, grace in list(self._graces.items()):
            if grace:
                self._event_loop.call_later(grace, self._give_up, task)
            else:
                self._give_up(task)

    def _give_up(self, task: asyncio.Task[Any]) -> None:
        if task in self._graces and task not in self._given_up:
            self._given_up.add(task)
            task.cancel()


class HandedOff(Exception):
    """The run continues as the agent of that path."""


class DirectResults:
    """All results of one run, in memory."""

    def __init__(self) -> None:
        self._kept: list[tuple[ToolRequest, ToolResult]] = []

    def add(self, request: ToolRequest, result: ToolResult) -> ToolResult:
        """Keep and return a result."""
        self._kept.append((request, result))
        return result

    async def find(
        self, call_id: str, iteration: int | None, ignored: Sequence[str] = ()
    ) -> ToolResult:
        """As `perdure.tool_results.KeptResults`. Raises UnknownCallError."""
        kept = {
            CallPlace(call.iteration, call.index, call.call_id, call.name): result
            for call, result in self._kept
            if call.name not in ignored
        }
        return kept[choose(kept, call_id, iteration)]


logger = logging.getLogger(__name__)
_ON_EVENT_FAILED = "on_event failed for a %s event; the run goes on"

Value = TypeVar("Value")

EventCallback = Callable[[str, dict[str, Any]], None]
CallAgent = Callable[[ToolRequest, Allowance], Awaitable[ChildEnd]]
ApproveFunction = Callable[[ToolRequest], Approval | Awaitable[Approval]]
AnswerFunction = Callable[[ToolRequest], str | Approval | Awaitable[str | Approval]]


@dataclass(kw_only=True, eq=False)
class DirectEffects(Effects):
    """Calls the model, the tools and the user's callbacks, and lets a caller steer and cancel from
    any thread.
    """

    agent: Agent
    conversation: Conversation
    model: ModelFunction
    toolbox: ToolBox
    inputs: Mapping[str, Any]
    options: RunOptions
    deps: Any = None
    """Deps of the run's functions, as JSON."""
    guardrails: Guardrails | None = None
    compactor: Compactor | None = None
    prepare: Mapping[str, PrepareTools] = field(default_factory=dict)
    approve_call: ApproveFunction | None = None
    answer_call: AnswerFunction | None = None
    on_event: EventCallback | None = None
    call_agent: CallAgent | None = None
    """Runs another agent, whose run is already prepared, for a tool call and within an
    allowance."""
    specs: Mapping[str, ToolSpec] = field(default_factory=dict)
    """The tools offered to the model, by name."""
    waits: Waits = field(default_factory=Waits)
    results: DirectResults = field(default_factory=DirectResults)
    steering: deque[str] = field(default_factory=deque)
    unread: list[str] = field(default_factory=list)
    """Steering messages not yet sent to a model."""

    def __post_init__(self) -> None:
        self._telling: asyncio.Future[None] | None = None
        self.guard(self.guardrails)

    def guard(self, guardrails: Guardrails | None) -> None:
        """Replace the guardrails."""
        self.guardrails, compactors = guardrails, {"": self.compactor} if self.compactor else {}
        self._hooks = Hooks({"": guardrails or Guardrails()}, compactors, self.prepare)

    @property
    def version(self) -> int:
        return LOOP_VERSION

    def cancel(self) -> None:
        """Cancel the run. Callable from any thread, at any time."""
        self.waits.cancel()

    def cancelled(self) -> bool:
        return self.waits.cancelled

    def has_steering(self) -> bool:
        return bool(self.steering)

    def drain_steering(self) -> list[str]:
        texts = (
            [self.steering.popleft() for _ in range(len(self.steering))] if self.steering else []
        )
        self.unread += texts
        return texts

    def now(self) -> float:
        return time.time()

    def random(self) -> float:
        return random.random()

    def emit(
        self, type: EventType, iteration: int, data: LoggedData, *, call_id: str | None = None
    ) -> None:
        if self.on_event is None:
            return  # without the cost of a copy
        seen: dict[str, Any] = {**data}
        if type in CONVERSATION_EVENTS:
            seen["messages"] = list(self.conversation.messages)
        self._deliver(type, seen)

    def _deliver(self, type: str, seen: Any) -> None:
        if self.on_event is None:
            return
        try:
            told = self.on_event(type, seen)
        except Exception:
            logger.exception(_ON_EVENT_FAILED, type)
            return
        if told is not None and inspect.isawaitable(told):
            self._telling = asyncio.ensure_future(self._give_to(type, told, self._telling))

    async def _give_to(
        self, type: str, told: Awaitable[object], before: Awaitable[None] | None
    ) -> None:
        if before is not None:
            await before
        try:
            await told
        except Exception:
            logger.exception(_ON_EVENT_FAILED, type)

    async def catch_up(self) -> None:
        """Wait until an async `on_event` has received all events."""
        if self._telling is not None:
            await asyncio.wait([self._telling])

    async def checkpoint(self, state: LoopState) -> None:
        await self.catch_up()
        await asyncio.sleep(0)  # Yield to other tasks, even if neither model nor tools ever wait.

    async def hand_off(self, path: str) -> None:
        """As `Effects.hand_off`. Raises HandedOff."""
        raise HandedOff(path)

    async def sleep(self, seconds: float, why: str) -> None:
        await self._unless_cancelled(asyncio.sleep(seconds))

    def is_held_for(self, reason: HoldReason) -> bool:
        return False

    async def hold(self, error: RunError, reason: HoldReason) -> None:
        raise error

    async def wake(self) -> None:
        pass

    async def call_model(self, conversation: Conversation, calling: Calling) -> ModelReply:
        self.unread.clear()
        agent = self.agent.with_fallback(calling.fallback).with_only(calling.tools)
        if call := prompted_call(agent, calling, self.options):
            return call.read(await self._ask(call.agent, call.messages(conversation.messages)))
        agent = agent if calling.with_tools else agent.model_copy(update={"tools": None})
        return await self._ask(agent, list(conversation.messages))

    async def _ask(self, agent: Agent, messages: list[Message]) -> ModelReply:
        try:
            reply = self.model(agent, messages)
            if not isinstance(reply, (ModelReply, ScriptedReply)):
                reply = await self._unless_cancelled(reply)
            if isinstance(reply, ModelReply):
                return reply
            if reply.delay:
                await self._unless_cancelled(asyncio.sleep(reply.delay))
            return read_reply(agent, reply)
        except (ModelError, Cancelled):
            raise
        except Exception as error:
            text = f"the model function raised {error!r}"
            raise ModelError(text, kind="configuration", provider=PROVIDER) from error

    async def run_tool(self, request: ToolRequest) -> ToolResult:
        await self.catch_up()
        execution = self.toolbox.execute(
            self.agent,
            request.name,
            request.arguments,
            self.inputs,
            self._context(
                request,
                conversation=request.context,
                answered=request.answered,
                report=self._report,
                is_cancelled=self.cancelled,
                kept_results=self.results.find,
                max_result=self.options.max_result,
            ),
            timeout=self.specs[request.name].timeout or self.options.tool_timeout,
            limits=SizeLimits().for_one_of(request.calls),
        )
        try:
            return self.results.add(
                request, await self.waits.until(execution, grace=self.options.cancel_grace)
            )
        except Cancelled:
            return ToolResult.cancellation(outcome_unknown=True)

    def _context(self, request: ToolRequest, key: str = "", **more: Any) -> ToolContext:
        return context_with(
            iteration=request.iteration,
            call_id=request.call_id,
            idempotency_key=key or self.idempotency_key(request),
            may_repeat=request.may_repeat,
            deps=open_deps(self.deps),
            **more,
        )

    def _report(self, progress: ToolProgress) -> None:
        self._deliver("tool_progress", progress_data(progress))

    async def run_agent(self, request: ToolRequest, allowance: Allowance) -> ChildEnd:
        if self.call_agent is None:
            return ChildEnd(
                ToolResult.failure("Error: nothing runs other agents here", kind="configuration")
            )
        end = await self.call_agent(request, allowance)
        self.results.add(request, end.result)
        return end

    async def judge_input(self, conversation: Conversation) -> GuardrailResult:
        return await self._judge("input", conversation.messages)

    async def prepare_tools(self, conversation: Conversation, iteration: int) -> GuardrailResult:
        deps, messages = open_deps(self.deps), deepcopy(conversation.messages)
        context = ToolContext(deps=deps, iteration=iteration, conversation=messages)
        asked = self._hooks.prepare_tools(self.options.prepare_tools or "", self.agent, context)
        return await self._unless_cancelled(asked)

    async def judge_output(self, message: Message) -> JudgedOutput:
        context = ToolContext(deps=open_deps(self.deps))
        return await self._unless_cancelled(
            self._hooks.judge_output("", self.agent, deepcopy(message), context)
        )

    async def judge_tool(self, request: ToolRequest) -> GuardrailResult:
        context = self._context(request)
        return await self._judge("tool", request.name, request.arguments, context=context)

    async def _judge(
        self, point: GuardrailPoint, *subject: Any, context: ToolContext | None = None
    ) -> GuardrailResult:
        # Copies, as on a worker: changes by a guardrail have no effect.
        context = context or ToolContext(deps=open_deps(self.deps))
        return await self._unless_cancelled(
            self._hooks.judge("", point, *deepcopy(subject), context=context)
        )

    async def compact(self, conversation: Conversation, head: int, drop: int) -> str:
        dropped = deepcopy(conversation.messages[head : head + drop])
        if not callable(self.compactor):
            return summary_of((await self._ask(*compaction(self.compactor, dropped))).message.text)
        return summary_of(await self._unless_cancelled(self._hooks.call(self.compactor, dropped)))

    async def check_approval(self, request: ToolRequest) -> GuardrailResult:
        call = (request.name, deepcopy(request.arguments), self.inputs, self._context(request))
        asked = self.toolbox.needs_approval(self.agent, *call, timeout=JUDGE_SECONDS)
        return await self._unless_cancelled(asked)

    def idempotency_key(self, request: ToolRequest) -> str:
        return f"{request.iteration}/{request.index}"

    async def reconcile(self, request: ToolRequest, earlier: UnknownCall) -> Reconciled:
        call = (
            request.name,
            deepcopy(request.arguments),
            self.inputs,
            self._context(request, earlier.key),
        )
        timeout = self.specs[request.name].timeout or self.options.tool_timeout
        return await self._unless_cancelled(
            self.toolbox.reconcile(self.agent, *call, timeout=timeout)
        )

    def misfits(self, request: ToolRequest) -> list[str]:
        tool = self.agent.tool(request.name)
        return call_problems(tool, self.specs[request.name], request.arguments) if tool else []

    async def approve(self, request: ToolRequest, asked: Asked) -> Approval:
        """As `Effects.approve`. Raises ValueError for a decision that does not fit the question."""
        decide = self.answer_call if asked.question else self.approve_call
        if decide is None:
            word = "answer" if asked.question else "approve"
            return Approval(approved=False, reason=f"this run has no one to {word} it")
        deadline = asyncio.timeout(asked.seconds)
        try:
            async with deadline:
                given = decide(request)
                if inspect.isawaitable(given):
                    given = await self._unless_cancelled(given)
        except TimeoutError:
            if not deadline.expired():
                raise
            return asked.expiry
        approval = given if isinstance(given, Approval) else Approval(approved=True, answer=given)
        if problem := misfit(asked.question, approval):
            raise ValueError(f"the decision about tool call {request.call_id!r}: {problem}")
        return await self._with_verdict(request, approval)

    async def _with_verdict(self, request: ToolRequest, approval: Approval) -> Approval:
        """Apply the tool guardrail to edited arguments. If it denies them, the call is denied
        without a further question.
        """
        if (
            not approval.approved
            or approval.arguments is None
            or not (self.guardrails and self.guardrails.tool)
        ):
            return approval
        edited = request.model_copy(update={"arguments": approval.arguments})
        verdict = checked_verdict("tool", await self.judge_tool(edited))
        if not verdict.allowed:
            return Approval(
                approved=False,
                reason=f"the tool guardrail denies the edited arguments: {verdict.reason}",
            )
        return (
            approval
            if verdict.rewrite is None
            else approval.model_copy(update={"arguments": verdict.rewrite})
        )

    async def _unless_cancelled(self, effect: Awaitable[Value]) -> Value:
        """Return the effect's result. Raises `Cancelled` if the run is cancelled first."""
        if self._telling is not None:
            await self.catch_up()
        if not self.waits.cancelled:
            return await self.waits.until(effect)
        if inspect.iscoroutine(effect):
            effect.close()
        raise Cancelled


Tools = Toolset | Mapping[str, Callable[..., Any]] | Sequence[Callable[..., Any] | Toolset]
