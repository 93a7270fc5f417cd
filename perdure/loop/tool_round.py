"""One round of tool calls (§13.7 step 8): each is admitted, decided by a person if need be,
executed, and shown.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass

from ..arguments import parse_with_repair
from ..errors import ToolArgumentError, ToolNotRegisteredError
from ..event_data import (
    ErrorData,
    ProgressData,
    StatusData,
    ToolCallStartData,
    ToolResultData,
)
from ..json_types import JsonObject
from ..messages import Message, Needed, TextPart, ToolCall, ToolResult
from ..settings.child_agents import DELEGATE, TRANSFER, written_action
from ..text import Note, cut_middle, excerpt, left_out_here, utf8, visible
from ..tool_calls import (
    ChildRun,
    Handoff,
    Question,
    ToolRequest,
    ToolSpec,
)
from ..tool_results import shorten, shown_bytes
from ..unknown_outcomes import Reconciled, same_call, unknown_note
from .decisions import Admitted, HumanDecisions, Immediate, refusal
from .effects import Cancelled, Effects
from .limits import Allowances, Spent
from .state import RunPart
from .verdicts import checked_verdict

MAX_MESSAGE_BYTES = 8 * 1024
MAX_BYTES = 64 * 1024
"""The limit of all messages together: the oldest are left out first."""


def recent_messages(messages: Sequence[Message], count: int) -> list[Message]:
    """Last `count` messages except instructions, as messages of a user and an assistant with text
    alone.

    Tool calls and their results become text; media become the name of their kind.
    """
    found: list[Message] = []
    left = MAX_BYTES
    for message in reversed(messages):
        if len(found) == count:
            break
        if message.instructs:
            continue
        text = cut_middle("\n".join(filter(None, _texts(message))), MAX_MESSAGE_BYTES)
        left -= len(utf8(text))
        if left < 0:
            break
        found.append(Message.assistant(text) if message.role == "assistant" else Message.user(text))
    return found[::-1]


def _texts(message: Message) -> Iterator[str]:
    if message.role == "tool":
        yield "Tool result:"
    for part in message.parts:
        yield part.value if isinstance(part, TextPart) else f"[{part.kind}]"
    yield from (_action(call) for call in message.tool_calls)


def _action(call: ToolCall) -> str:
    """Return the call in the form in which a model without native tools writes it."""
    try:
        arguments: object = parse_with_repair(call.arguments)[0]
    except ToolArgumentError:
        arguments = call.arguments
    return written_action(call.name, arguments)


MAX_QUESTIONS = 20
"""The most answers that one call may need."""
SECOND_HANDOFF = (
    "Error: Not handed over to {}: of several such calls in one reply, only the first one counts, "
    "even if it is "
    "denied. If that agent is still to go on, call this again in your next reply"
)
"""Nobody is asked about such a call."""
TOO_CURIOUS = (
    f"Error: Tool '{{}}' failed: it still asks after {MAX_QUESTIONS} questions to a person"
)
MAX_SHOWN_ARGUMENTS = 8 * 1024
"""The most characters of edited arguments that the model reads; the event has them complete."""


@dataclass
class ToolRound(RunPart[Effects]):
    """Answers the tool calls of one reply; every call gets exactly one result, cancelled or not."""

    tools: Mapping[str, ToolSpec]
    guarded: bool
    offered: Collection[str] | None = None
    """The tools that the model was offered for this reply; None for all."""

    def __post_init__(self) -> None:
        self._slots = asyncio.Semaphore(self.options.max_parallel_tools)
        self._people = HumanDecisions(self.effects, self.state)
        self._allowances = Allowances(self.options, self.state)
        self._pager = next(
            (spec.name for spec in self.tools.values() if spec.built_in == "read_result"), None
        )
        self._agents = {
            name for name, spec in self.tools.items() if isinstance(spec.execution, ChildRun)
        }
        """The tools whose calls are runs of other agents."""
        self._turns: dict[str, asyncio.Lock] = {}
        """One lock for equal calls of a tool that is not idempotent."""
        self.transfer: tuple[ToolRequest, str] | None = None
        """The call after which the run continues as another agent, and that agent's path."""
        self._transfers: Sequence[str] = ()
        """The ids of the reply's calls that ask for a transfer."""
        self._outcomes: dict[int, JsonObject] = {}
        """Data for later runs with the conversation, by the call's index in its reply."""

    async def run(self, calls: Sequence[ToolCall]) -> list[Message]:
        """Return the tool messages, in the order of `calls`.

        Raises `ToolNotRegisteredError` for a call of an unknown tool, when
        `RunOptions.unknown_tools` is "raise".
        """
        for call in calls:
            if (
                not self._is_offered(call.name)
                and not call.fault
                and self.options.unknown_tools == "raise"
            ):
                raise ToolNotRegisteredError(f"Tool not registered: {_name_of(call)}")
        self._transfers = [call.id for call in calls if self._handoff(call.name)]
        if self._concurrent(calls):
            self._allowances.expect(sum([call.name in self._agents for call in calls]))
            results = await self._answer_together(calls)
        else:
            results = [
                await self._answer(call, index, len(calls)) for index, call in enumerate(calls)
            ]
        answered = enumerate(zip(calls, results, strict=True))
        return [
            Message.tool(call, result, self._outcomes.pop(index, {}))
            for index, (call, result) in answered
        ]

    async def _answer_together(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Return the results after all calls have ended, so that none is still running when the
        first error is raised.
        """
        answers = [self._answer(call, index, len(calls)) for index, call in enumerate(calls)]
        results: list[ToolResult] = []
        for result in await asyncio.gather(*answers, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
            results.append(result)
        return results

    def _concurrent(self, calls: Sequence[ToolCall]) -> bool:
        if not self.options.parallel_tool_calls or len(calls) < 2:
            return False
        return all(
            [self.tools[call.name].parallel_safe for call in calls if call.name in self.tools]
        )

    async def _answer(self, call: ToolCall, index: int, calls: int) -> ToolResult:
        if self.effects.cancelled():
            return ToolResult.cancellation()
        self.emit(
            "tool_call_start",
            ToolCallStartData(name=call.name, arguments=call.arguments),
            call_id=call.id,
        )
        try:
            result = await self._answer_admitted(call, await self._admit(call, index, calls))
        except Cancelled:
            result = ToolResult.cancellation()
        if result.status in ("error", "timeout"):
            self.emit("error", ErrorData(message=result.text), call_id=call.id)
        data = ToolResultData(name=call.name, result=result.text)
        if result.size is not None:
            data |= {"isShortened": True, "size": result.size}
        if result.is_denied:
            data["isDenied"] = True
        if result.status == "cancelled":
            data["isCancelled"] = True
        if result.outcome_unknown:
            data["outcomeUnknown"] = True
        self.emit("tool_result", data, call_id=call.id)
        return result

    async def _admit(self, call: ToolCall, index: int, calls: int) -> Immediate | Admitted:
        """Parse the arguments (§9.8), and decide whether the call may be executed."""
        if call.fault:
            return refusal(call.fault, "invalid_call")
        if not self._is_offered(call.name):
            return refusal(f"Error: {self._unknown_tool(call)}", "unknown_tool")
        if call.id in self._transfers[1:]:
            return refusal(
                SECOND_HANDOFF.format(call.name.removeprefix(TRANSFER)), "second_handoff"
            )
        try:
            arguments, warning = parse_with_repair(call.arguments)
        except ToolArgumentError as error:
            return refusal(f"Error: Invalid JSON in tool arguments: {error}", "invalid_arguments")
        if warning:
            self.emit("status", StatusData(message=warning), call_id=call.id)
        place = {"iteration": self.state.iteration, "index": index, "calls": calls}
        request = ToolRequest(call_id=call.id, name=call.name, arguments=arguments, **place)
        return await self._permit(request)

    async def _permit(self, request: ToolRequest) -> Immediate | Admitted:
        """Ask the guardrail (§13.4), and decide whether a person must be asked, for the guardrail
        or the tool.
        """
        ask: str | None = None
        if self.guarded:
            async with self._slots:
                verdict = checked_verdict("tool", await self.effects.judge_tool(request))
            if not verdict.allowed:
                return Immediate(ToolResult.denial(f"Tool denied by guardrail: {verdict.reason}"))
            if verdict.rewrite is not None:
                request.arguments = verdict.rewrite
            ask = verdict.ask
        spec = self.tools[request.name]
        if isinstance(spec.execution, Question):
            return await self._people.answer(request, spec, ask)
        if ask is None and spec.approval_check and not spec.needs_approval:
            async with self._slots:
                ask = (await self.effects.check_approval(request)).ask
        return Admitted(request, "" if ask is None and spec.needs_approval else ask)

    async def _answer_admitted(self, call: ToolCall, step: Immediate | Admitted) -> ToolResult:
        if isinstance(step, Admitted):
            request = step.request
            async with self._turn(request):
                step = await self._approve(step)
                if isinstance(step, Admitted) and step.request is request:
                    return await self._execute(call, step)
        if isinstance(
            step, Admitted
        ):  # With other arguments now, which may equal those of another call.
            return await self._answer_admitted(call, step)
        if call.name in self._agents:
            self._allowances.give_up()
        return step.result

    def _turn(self, request: ToolRequest) -> AbstractAsyncContextManager[None]:
        """Return the turn of the call: equal calls of a tool that is not idempotent run one after
        the other.

        So the outcome of the first is known, or known to be unknown, when the second begins.
        """
        spec = self.tools[request.name]
        if spec.idempotent:
            return nullcontext()
        return self._turns.setdefault(
            same_call(request.name, request.arguments, spec), asyncio.Lock()
        )

    async def _approve(self, call: Admitted) -> Immediate | Admitted:
        """Settle equal calls of unknown outcome, and ask a person if necessary.

        A call whose arguments do not fit its tool is not put to a person.
        """
        request, spec = call.request, self.tools[call.request.name]
        settled = None if spec.idempotent else await self._settle(request, spec)
        if isinstance(settled, ToolResult):
            return Immediate(self._shown(request, settled))
        if settled is not None:
            call = call._replace(ask="; ".join(filter(None, (call.ask, settled))))
        if call.ask is None:
            return call
        if problems := self.effects.misfits(request):
            text = f"Error: Invalid arguments for tool '{request.name}': {'; '.join(problems)}"
            return refusal(text, "invalid_arguments")
        return await self._people.approval(call, spec)

    async def _settle(self, request: ToolRequest, spec: ToolSpec) -> ToolResult | str | None:
        """Find the outcome of earlier calls that this one may repeat.

        Returns the result of a call that was executed, a reason to ask a person, or None.
        """
        reason: str | None = None
        for call in self.state.unknown_like(request, spec):
            found = (
                await self.effects.reconcile(request, call)
                if spec.reconcile
                else Reconciled(doubt="")
            )
            if found.doubt is None:
                self.state.unknown_calls.remove(call)
                self._outcomes.setdefault(request.index, {}).setdefault(
                    "settled_outcomes", []
                ).append(call.key)
            if found.result is not None:
                return found.result
            reason = reason if found.doubt is None else call.reason(found.doubt)
        return reason

    async def _execute(self, call: ToolCall, step: Admitted) -> ToolResult:
        request, spec = step.request, self.tools[call.name]
        result = await self._run(call, sent := self._as_sent(request))
        if result.needs is not None:
            result = await self._continue(call, sent, result.needs)
        if result.outcome_unknown:
            unknown = self.state.remember_unknown(
                request, spec, self.effects.idempotency_key(request)
            )
            told = unknown.model_dump(include={"same", "key"})
            self._outcomes.setdefault(request.index, {})["outcome_unknown"] = told
            result = result.model_copy(
                update={"parts": [*result.parts, TextPart(value=f"\n{unknown_note(spec)}")]}
            )
        return _result_of_edited(request, result) if step.is_edited else result

    async def _continue(self, call: ToolCall, request: ToolRequest, needed: Needed) -> ToolResult:
        """Return the result of a call that has begun, after the answers that it needs from
        people.
        """
        for _ in range(MAX_QUESTIONS):
            try:
                request = await self._people.continuation(request, self.tools[call.name], needed)
                result = await self._run(call, request)
            except Cancelled:
                return ToolResult.cancellation(outcome_unknown=True)
            if result.needs is None:
                return result
            needed = result.needs
        return ToolResult.failure(TOO_CURIOUS.format(call.name), kind="limit", outcome_unknown=True)

    async def _run(self, call: ToolCall, request: ToolRequest) -> ToolResult:
        async with self._slots:
            if self.effects.cancelled():
                raise Cancelled
            if request.answered is None:
                self.state.tool_calls += 1
                if self.options.progress:
                    self._emit_progress(call)
            if handoff := self._handoff(call.name):
                return self._transfer(request, handoff.path)
            run = self._call_agent if call.name in self._agents else self.effects.run_tool
            return self._shown(request, await run(request))

    def _handoff(self, name: str) -> Handoff | None:
        execution = self.tools[name].execution if name in self.tools else None
        return execution if isinstance(execution, Handoff) else None

    def _transfer(self, request: ToolRequest, path: str) -> ToolResult:
        self.transfer = request, path
        name = request.name.removeprefix(TRANSFER)
        return ToolResult.of_text(f"The agent {name} goes on with the conversation from here.")

    def _emit_progress(self, call: ToolCall) -> None:
        data = ProgressData(
            type="progress",
            step=self.state.steps,
            max_steps=self.options.max_iterations,
            action="delegate" if call.name.startswith(DELEGATE) else "tool_call",
            target=call.name.removeprefix(DELEGATE),
        )
        self.emit("progress", data, call_id=call.id)

    def _as_sent(self, request: ToolRequest) -> ToolRequest:
        """Add the messages before the reply, if the tool asks for some, and mark a possible
        repetition.
        """
        spec = self.tools[request.name]
        may_repeat = bool(self.state.unknown_like(request, spec))
        if not spec.context and not may_repeat:
            return request
        context = recent_messages(self.conversation.messages, spec.context or 0)
        return request.model_copy(update={"context": context, "may_repeat": may_repeat})

    async def _call_agent(self, request: ToolRequest) -> ToolResult:
        """Run another agent within a share of this run's budget, and return its answer; a failure
        if too little is left.
        """
        try:
            allowance = self._allowances.take(self.effects.now())
        except Spent as spent:
            text = (
                f"Error: Tool '{request.name}' failed: too little is left of {spent} for another "
                "agent"
            )
            return ToolResult.failure(text, kind="limit")
        end = await self.effects.run_agent(request, allowance)
        self._allowances.settle(allowance, end)
        return end.result

    def _is_offered(self, name: str) -> bool:
        return name in self.tools and (self.offered is None or name in self.offered)

    def _shown(self, request: ToolRequest, result: ToolResult) -> ToolResult:
        """Return the result as the conversation keeps it; `ToolResult.size` is the size of a
        shortened one.
        """
        limit = shown_bytes(
            self.tools[request.name].max_result or self.options.max_result, request.calls
        )
        return shorten(result, limit, self._note(request))

    def _note(self, request: ToolRequest) -> Note:
        """Return the note that marks a shortened result; the complete one is stored elsewhere."""
        if self._pager in (None, request.name) or self.tools[request.name].local:
            return left_out_here

        def note(start: int, missing: int, whole: int) -> str:
            where = json.dumps(
                {"call_id": request.call_id, "iteration": request.iteration, "offset": start}
            )
            return (
                f"{left_out_here(start, missing, whole)[:-2]}; {self._pager}({where}) reads on "
                "from here …]"
            )

        return note

    def _unknown_tool(self, call: ToolCall) -> str:
        """Return the name that was called and those that exist; in a prompt that describes agents,
        they go by their own names.
        """
        name, tools = _name_of(call), [tool for tool in self.tools if self._is_offered(tool)]
        if not self.state.prompted or not name.startswith(DELEGATE):
            return f"Tool not registered: {name}. {_list_of('tools', tools)}"
        agents = [tool.removeprefix(DELEGATE) for tool in tools if tool.startswith(DELEGATE)]
        return f"No such agent: {name.removeprefix(DELEGATE)}. {_list_of('agents', agents)}"


def _result_of_edited(request: ToolRequest, result: ToolResult) -> ToolResult:
    """Return the result after the arguments that ran: the model's own message keeps the model's
    arguments.
    """
    shown = excerpt(json.dumps(request.arguments, ensure_ascii=False), MAX_SHOWN_ARGUMENTS)
    note = TextPart(value=f"[executed with arguments that a person edited: {shown}]\n")
    return result.model_copy(update={"parts": [note, *result.parts]})


def _list_of(kind: str, names: Collection[str]) -> str:
    return f"Available {kind}: {', '.join(sorted(names))}" if names else f"There are no {kind}."


def _name_of(call: ToolCall) -> str:
    """Return the model's name for the tool, which can be any text, in one short line."""
    return excerpt(visible(call.name[:201]).replace("\n", "\\n").replace("\t", "\\t"), 200)
