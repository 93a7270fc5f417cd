"""Runs an agent in this process against an earlier run's record, which answers its tool calls."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ..activities.heartbeat import Heartbeat
from ..activities.model import ask_model, price_reply
from ..agents import Agent, others_of, with_others
from ..conversation import Conversation
from ..declared_tools import Tool
from ..json_types import JsonObject, JsonView
from ..loop.effects import Calling
from ..loop.state import LoopState
from ..messages import Message, ModelReply, ToolResult
from ..options import RunOptions
from ..prompty.portable import resolve_environment
from ..providers.prices import Prices
from ..tool_calls import Approval, Handoff, ToolRequest, ToolSpec
from .direct_effects import DirectEffects
from .direct_model import Model, prompted_call
from .in_process import InProcessRun
from .recording import Answers, RecordedReply, Recording


class EveryTool(dict[str, ToolSpec]):
    """The tools of a run: the known ones, and any other name that a model may call."""

    def __missing__(self, name: str) -> ToolSpec:
        return ToolSpec(name=name)

    def __contains__(self, name: object) -> bool:
        return True


@dataclass(kw_only=True, eq=False)
class RecordEffects(DirectEffects):
    """Calls the provider and executes only the real tools: the record answers all other calls."""

    answers: Answers = field(default_factory=lambda: Answers([]))
    is_played: bool = False
    """Whether `model` replies in the place of the provider."""
    real: frozenset[str] = frozenset()
    """The names of the tools to execute."""
    read_before: dict[int, list[str]] = field(default_factory=dict)
    """Iteration → steering messages read before its model call."""
    prices: Prices | None = None
    """Prices of calls; None takes the recorded costs, in order."""
    costs: list[float | None] = field(default_factory=list)
    replies: list[RecordedReply] = field(default_factory=list)
    """The model's replies, with their costs and durations."""
    _at: int = 0
    _claimed: dict[tuple[int, int], ToolResult] = field(default_factory=dict)

    async def checkpoint(self, state: LoopState) -> None:
        self._at = state.iteration + 1
        await super().checkpoint(state)

    def has_steering(self) -> bool:
        return bool(self.read_before.get(self._at + 1)) or super().has_steering()

    def drain_steering(self) -> list[str]:
        return [*self.read_before.pop(self._at, []), *super().drain_steering()]

    async def call_model(self, conversation: Conversation, calling: Calling) -> ModelReply:
        """As `Effects.call_model`. Raises Diverged for a tool call without a recorded result."""
        self.unread.clear()
        started = time.perf_counter()
        reply = await self._with_cost(await self._next_reply(conversation, calling))
        self.replies.append(RecordedReply(calling.iteration, reply, time.perf_counter() - started))
        asked = [
            (index, call)
            for index, call in enumerate(reply.message.tool_calls)
            if call.name not in self.real
        ]
        results = self.answers.claim(calling.iteration, [call for _, call in asked])
        for (index, _), result in zip(asked, results, strict=True):
            self._claimed[calling.iteration, index] = result
        return reply

    async def _next_reply(self, conversation: Conversation, calling: Calling) -> ModelReply:
        if self.is_played:
            return await super().call_model(conversation, calling)
        return await self._unless_cancelled(self._ask_model(conversation, calling))

    async def _ask_model(self, conversation: Conversation, calling: Calling) -> ModelReply:
        messages, agent = list(conversation.messages), self.agent.with_fallback(calling.fallback)
        if call := prompted_call(agent, calling, self.options):
            return call.read(
                await ask_model(call.agent, call.messages(messages), self.options, Heartbeat())
            )
        return await ask_model(
            agent, messages, self.options, Heartbeat(), with_tools=calling.with_tools
        )

    async def _with_cost(self, reply: ModelReply) -> ModelReply:
        if self.prices is not None:
            return price_reply(reply, self.agent, self.prices)
        reply.cost_usd = self.costs.pop(0) if self.costs else None
        return reply

    async def run_tool(self, request: ToolRequest) -> ToolResult:
        claimed = self._claimed.pop((request.iteration, request.index), None)
        return (
            await super().run_tool(request)
            if claimed is None
            else self.results.add(request, claimed)
        )


class AgainstRecord(InProcessRun):
    """A run whose tool calls a record answers, except those of the given `tools`.

    `model` replies in the place of the provider. `handoffs` has the instructions of the agents to
    hand over to; None renders them.
    """

    effects_type: ClassVar[type[DirectEffects]] = RecordEffects

    def __init__(
        self,
        recording: Recording,
        *,
        agent: Agent | None = None,
        model: Model | None = None,
        messages: Sequence[Message] | None = None,
        options: JsonView | None = None,
        inputs: JsonView | None = None,
        tools: JsonView | None = None,
        handoffs: Mapping[str, list[Message]] | None = None,
        **more: Any,
    ) -> None:
        self._recording, self._recorded = recording, dict(handoffs or {})
        chosen = {"guardrails": None, "compactor": None, "stream": False, **(options or {})}
        super().__init__(
            agent or recording.agent,
            recording.messages if messages is None else messages,
            model=model or [],
            options=RunOptions.model_validate({**option_values(recording), **chosen}),
            inputs={**recording.inputs, **(inputs or {})},
            tools=tools or {},
            deps=recording.deps,
            **{"approve": self._as_recorded, "answer": self._as_recorded, **more},
        )
        assert isinstance(self.effects, RecordEffects)
        self.record = self.effects
        self.record.is_played = model is not None
        self.record.answers = Answers(
            [each for each in recording.calls if each.call.name not in (tools or {})]
        )
        self.record.real = frozenset(tools or {})
        self.record.read_before = {
            iteration: list(texts) for iteration, texts in recording.steering.items()
        }
        self.record.costs = [each.cost for each in recording.replies]

    def _instructions_by_path(
        self, others: dict[str, Agent], inputs: Mapping[str, Any]
    ) -> dict[str, list[Message]]:
        return self._recorded or super()._instructions_by_path(others, inputs)

    def _switch_to_agent(self, path: str) -> None:
        super()._switch_to_agent(path)
        if path in others_of(self._recording.agent):
            self._recording = self._recording.as_agent(path)

    async def _offered_tools(self) -> dict[str, ToolSpec]:
        whole, real = self.effects.agent, self.record.real
        self.effects.agent = whole.model_copy(
            update={"tools": [tool for tool in whole.tools or [] if tool.name in real]}
        )
        specs = await super()._offered_tools()
        declared = self.effects.agent.tools or []
        # Tools answered by the record are never reached, so the references of their connections may
        # be unset here.
        resolved = whole.model_copy(update={"tools": None})
        if not self.record.is_played:
            resolved = resolve_environment(resolved)
        resolved = with_others(resolved.model_copy(update={"tools": whole.tools}), others_of(whole))
        offered = offered_to(resolved, self._recording)
        self.effects.agent = resolved.with_declarations([*offered, *declared])
        # The results already contain the decision and the place of execution.
        known = {spec.name: _without_execution(spec) for spec in self._recording.tools}
        return EveryTool({**known, **specs})

    def _as_recorded(self, request: ToolRequest) -> Approval:
        """Return the recorded decision about the same call."""
        found = self._recording.decisions.get((request.iteration, request.call_id))
        return found or Approval(approved=False, reason="it was not decided in the recorded run")


def offered_to(agent: Agent, recording: Recording) -> list[Tool]:
    """Return the recorded functions of the tools that the agent declares as the recorded one did;
    changed tools offer their own.

    A declared tool that offers several functions, and has changed since, is offered as recorded.
    """
    same = {tool.name for tool in agent.tools or [] if _same(tool, recording.agent.tool(tool.name))}
    return [tool for tool in recording.offered if getattr(tool, "of", tool.name) in same]


def _same(tool: Tool, before: Tool | None) -> bool:
    return before is not None and (tool.kind != "function" or tool == before)


def _without_execution(spec: ToolSpec) -> ToolSpec:
    execution = spec.execution if isinstance(spec.execution, Handoff) else None
    return ToolSpec(name=spec.name, max_result=spec.max_result, execution=execution)


def option_values(recording: Recording) -> JsonObject:
    """Return the run's options; for a run with handoffs, only those that hold for all of its
    agents.
    """
    names = recording.given if recording.handoffs else RunOptions.model_fields
    return {name: getattr(recording.options, name) for name in names}
