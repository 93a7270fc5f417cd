"""One round of tool calls: each call is admitted, then executed (§13.7 step 8)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping, Sequence

from ..arguments import parse_with_repair
from ..child_agents import DELEGATE
from ..conversation import Conversation
from ..errors import ToolArgumentError, ToolNotRegisteredError
from ..event_data import (
    ErrorData,
    EventType,
    LoggedData,
    ProgressData,
    StatusData,
    ToolCallStartData,
    ToolResultData,
)
from ..excerpt import excerpt, visible
from ..messages import Message, TextPart, ToolCall, ToolResult
from ..options import RunOptions
from ..recent_messages import recent_messages
from ..tool_calls import ChildRun, Question, ToolRequest, ToolSpec
from .allowance import LEAST_SHARE, Allowances, Spent
from .effects import Cancelled, Effects
from .persons import Admitted, Immediate, Persons, refused
from .shown import ShownResults
from .state import LoopState
from .verdicts import checked

CANCELLED_TEXT = "[cancelled]"
"""The result of a call that a cancelled run did not execute, or did not wait for."""
MAX_SHOWN_ARGUMENTS = 8 * 1024
"""Characters of edited arguments that the model is told; the event has them whole."""


class ToolRound:
    """Answers the tool calls of one reply; every call gets exactly one result, cancelled or not."""

    def __init__(
        self,
        effects: Effects,
        options: RunOptions,
        state: LoopState,
        tools: Mapping[str, ToolSpec],
        guarded: bool,
        conversation: Conversation,
    ) -> None:
        self._effects = effects
        self._conversation = conversation
        self._options = options
        self._state = state
        self._tools = tools
        self._guarded = guarded
        self._slots = asyncio.Semaphore(options.max_parallel_tools)
        self._allowances = Allowances(options, state, lambda: effects.is_new(LEAST_SHARE))
        self._shown = ShownResults(tools, options.max_result)

    async def run(self, calls: Sequence[ToolCall]) -> list[Message]:
        """The tool messages, in the order of `calls`.

        Raises `ToolNotRegisteredError` for a call of an unknown tool, when `RunOptions.unknown_tools` is "raise".
        """
        for call in calls:
            if call.name not in self._tools and not call.fault and self._options.unknown_tools == "raise":
                raise ToolNotRegisteredError(f"Tool not registered: {_shown(call)}")
        if self._concurrent(calls):
            self._allowances.expect(sum(self._is_run(call) for call in calls))
            results = await self._answer_together(calls)
        else:
            results = [await self._answer(call, index, len(calls)) for index, call in enumerate(calls)]
        return [Message.tool(call, result) for call, result in zip(calls, results, strict=True)]

    def _is_run(self, call: ToolCall) -> bool:
        """Whether the call is a run of another agent."""
        return call.name in self._tools and isinstance(self._tools[call.name].execution, ChildRun)

    async def _answer_together(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """All calls end before the first error is raised, so that none goes on running after it."""
        answers = [self._answer(call, index, len(calls)) for index, call in enumerate(calls)]
        results: list[ToolResult] = []
        for result in await asyncio.gather(*answers, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
            results.append(result)
        return results

    def _concurrent(self, calls: Sequence[ToolCall]) -> bool:
        if not self._options.parallel_tool_calls or len(calls) < 2:
            return False
        return all(self._tools[call.name].parallel_safe for call in calls if call.name in self._tools)

    async def _answer(self, call: ToolCall, index: int, calls: int) -> ToolResult:
        if self._effects.cancelled():
            return ToolResult.failure(CANCELLED_TEXT, kind="cancelled", status="cancelled")
        self._emit("tool_call_start", ToolCallStartData(name=call.name, arguments=call.arguments), call)
        try:
            result = await self._execute(call, await self._admit(call, index, calls))
        except Cancelled:
            result = ToolResult.failure(CANCELLED_TEXT, kind="cancelled", status="cancelled")
        if result.status in ("error", "timeout"):
            self._emit("error", ErrorData(message=result.text), call)
        data = ToolResultData(name=call.name, result=result.text)
        if result.size is not None:
            data |= {"isShortened": True, "size": result.size}
        self._emit("tool_result", data, call)
        return result

    async def _admit(self, call: ToolCall, index: int, calls: int) -> Immediate | Admitted:
        """Parse the arguments (§9.8), and find out whether the call may be executed."""
        if call.fault:
            return refused(call.fault, "invalid_call")
        if call.name not in self._tools:
            return refused(f"Error: {self._unknown(call)}", "unknown_tool")
        try:
            arguments, warning = parse_with_repair(call.arguments)
        except ToolArgumentError as error:
            return refused(f"Error: Invalid JSON in tool arguments: {error}", "invalid_arguments")
        if warning:
            self._emit("status", StatusData(message=warning), call)
        place = {"iteration": self._state.iteration, "index": index, "calls": calls}
        request = ToolRequest(call_id=call.id, name=call.name, arguments=arguments, **place)
        return await self._permit(request)

    async def _permit(self, request: ToolRequest) -> Immediate | Admitted:
        """Ask the guardrail (§13.4) and then, if the tool or the guardrail wants it, a person.

        Nobody is asked about a call that can't be executed with its arguments.
        """
        ask: str | None = None
        if self._guarded:
            async with self._slots:
                verdict = checked("tool", await self._effects.judge_tool(request))
            if not verdict.allowed:
                return Immediate(ToolResult.of_text(f"Tool denied by guardrail: {verdict.reason}"))
            if verdict.rewrite is not None:
                request.arguments = verdict.rewrite
            ask = verdict.ask
        spec = self._tools[request.name]
        if isinstance(spec.execution, Question):
            return await Persons(self._effects, self._state).answer(request, spec, ask)
        if ask is None and spec.approval_check and not spec.needs_approval:
            async with self._slots:
                ask = (await self._effects.check_approval(request)).ask
        if ask is None and not spec.needs_approval:
            return Admitted(request)
        if (problems := self._effects.misfits(request)) and self._effects.is_new("misfits-ask-nobody"):
            text = f"Error: Invalid arguments for tool '{request.name}': {'; '.join(problems)}"
            return refused(text, "invalid_arguments")
        return await Persons(self._effects, self._state).approval(request, spec, ask)

    async def _execute(self, call: ToolCall, step: Immediate | Admitted) -> ToolResult:
        match step:
            case Immediate(result=result):
                if self._is_run(call):
                    self._allowances.give_up()
                return result
            case Admitted(request=request, is_edited=is_edited):
                async with self._slots:
                    if self._effects.cancelled():
                        raise Cancelled
                    self._state.tool_calls += 1
                    self._tell_progress(call)
                    run = self._run_agent if self._is_run(call) else self._effects.run_tool
                    result = self._shown(request, await run(self._with_context(request)))
                return _of_edited(request, result) if is_edited else result

    def _tell_progress(self, call: ToolCall) -> None:
        if not self._options.progress:
            return
        data = ProgressData(
            type="progress",
            step=self._state.steps,
            max_steps=self._options.max_iterations,
            action="delegate" if call.name.startswith(DELEGATE) else "tool_call",
            target=call.name.removeprefix(DELEGATE),
        )
        self._emit("progress", data, call)

    def _with_context(self, request: ToolRequest) -> ToolRequest:
        """With the messages before the model's reply, if the tool asks for some."""
        if not (count := self._tools[request.name].context):
            return request
        return request.model_copy(update={"context": recent_messages(self._conversation.messages, count)})

    async def _run_agent(self, request: ToolRequest) -> ToolResult:
        try:
            allowance = self._allowances.take(self._effects.now())
        except Spent as spent:
            text = f"Error: Tool '{request.name}' failed: too little is left of {spent} for another agent"
            return ToolResult.failure(text, kind="limit")
        end = await self._effects.run_agent(request, allowance)
        self._allowances.settle(allowance, end)
        return end.result

    def _unknown(self, call: ToolCall) -> str:
        """What was called, and what can be; a model that is told of agents in its prompt calls them by their names."""
        name = _shown(call)
        is_agent = self._state.prompted and name.startswith(DELEGATE)
        if not is_agent or not self._effects.is_new("agents-by-their-names"):
            return f"Tool not registered: {name}. {_listed('tools', self._tools)}"
        agents = [tool.removeprefix(DELEGATE) for tool in self._tools if tool.startswith(DELEGATE)]
        return f"No such agent: {name.removeprefix(DELEGATE)}. {_listed('agents', agents)}"

    def _emit(self, type: EventType, data: LoggedData, call: ToolCall) -> None:
        self._effects.emit(type, self._state.iteration, data, call_id=call.id)


def _of_edited(request: ToolRequest, result: ToolResult) -> ToolResult:
    """The result, and before it what ran: the model's own message keeps what the model wrote."""
    shown = excerpt(json.dumps(request.arguments, ensure_ascii=False), MAX_SHOWN_ARGUMENTS)
    note = TextPart(value=f"[executed with arguments that a person edited: {shown}]\n")
    return result.model_copy(update={"parts": [note, *result.parts]})


def _listed(kind: str, names: Collection[str]) -> str:
    return f"Available {kind}: {', '.join(sorted(names))}" if names else f"There are no {kind}."


def _shown(call: ToolCall) -> str:
    """The name that the model wrote, which can be anything, in one short line."""
    return excerpt(visible(call.name[:201]).replace("\n", "\\n").replace("\t", "\\t"), 200)
