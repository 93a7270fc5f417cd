"""The loop, with the steps of an iteration in the specification's order (§13.7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from ..conversation import Conversation
from ..errors import (
    ExecuteError,
    GuardrailError,
    LimitExceededError,
    MaxIterationsError,
    ModelError,
    RunCancelled,
    RunError,
)
from ..event_data import (
    CancelledData,
    ErrorData,
    EventType,
    FailedData,
    HandoffData,
    LoggedData,
    LoggedDoneData,
)
from ..guardrails import UNSEEN
from ..messages import Message, ModelReply, ToolCall
from ..options import RunOptions
from ..settings.child_agents import TRANSFER
from ..tool_calls import ToolSpec
from .effects import Cancelled, Effects
from .limits import no_step_left, partial_text, reached_limit
from .model_calls import ModelCalls
from .overflow import ContextWindow
from .state import (
    LoopState,
    Outcome,
    RunPart,
    outcome_of,
    output_error,
    send_back,
    unknown_calls_in,
)
from .tool_round import ToolRound
from .verdicts import checked_verdict, with_text


class AgentLoop(RunPart[Effects]):
    """One run of one agent. Its last event is its only terminal one.

    Args:
        effects: The interface to the model, the tools and everything else outside.
        conversation: The model's input; the loop extends and cuts it as the run proceeds.
        tools: The tools that the model may call, by name.
        guarded: The points that have a guardrail: `input`, `output`, `tool`; and `tools`, if a
            function decides which tools are offered.
        compacted: Whether there is a compactor.
        models: The agent's model and those of its `fallback`, as `PROVIDER/ID`.
        structured: Whether the agent declares `outputs`, so that an answer is read as JSON.
        state: The state at the end of the run's earlier link; None for a new run.
    """

    def __init__(
        self,
        effects: Effects,
        conversation: Conversation,
        options: RunOptions,
        *,
        tools: Mapping[str, ToolSpec],
        guarded: frozenset[str] = frozenset(),
        compacted: bool = False,
        structured: bool = False,
        models: Sequence[str] = (),
        state: LoopState | None = None,
    ) -> None:
        super().__init__(
            effects, conversation, options, state or LoopState(started_at=effects.now()), models
        )
        self.state.prompted |= options.tool_protocol == "json"
        self._guarded = guarded
        self._structured = structured and not options.raw
        hand = (effects, conversation, options, self.state, models)
        self._window = ContextWindow(*hand, compacted=compacted)
        self._calls = ModelCalls(*hand, make_room=self._make_room, is_seen=UNSEEN not in guarded)
        self._tools = ToolRound(*hand, tools=tools, guarded="tool" in guarded)

    async def run(self) -> Outcome:
        """Iterate until the model gives its answer.

        Raises `RunCancelled`, and a `RunError` of another kind when the run fails; both without
        messages.
        """
        if not self.state.iteration:
            self.state.unknown_calls = unknown_calls_in(self.conversation.messages)
        try:
            outcome = await self._iterate()
        except Cancelled:
            self._end("cancelled", CancelledData())
            raise RunCancelled("The run was cancelled", iterations=self.state.iterations) from None
        except RunError as error:
            error.iterations = self.state.iterations
            self._end("failed", FailedData(kind=error.kind, message=str(error)))
            raise
        done = LoggedDoneData(response=outcome.response)
        if outcome.cut_short:
            done["cutShort"] = outcome.cut_short
        self._end("done", done)
        return outcome

    def _end(self, type: EventType, data: LoggedData) -> None:
        """Emit the terminal event, after the steering messages that came too late: the next turn
        reads those (§14).
        """
        self._drain_steering()
        self.emit(type, data)

    async def _iterate(self) -> Outcome:
        while True:
            await self.effects.checkpoint(self.state)
            self.state.iteration += 1
            self._check_cancellation()
            self._drain_steering()
            if reached := await self._final_limit():
                return await self._stop_at(reached)
            self._drain_steering()  # Those that arrived while the run was held.
            await self._window.trim()
            await self._check_input()
            self._check_cancellation()
            try:
                reply = await self._call_model()
            except LimitExceededError as limit:
                return await self._stop_at(limit)
            is_guarded = "output" in self._guarded
            if self.state.acts_no_more(
                reply, is_guarded=is_guarded, is_structured=self._structured
            ):
                continue
            while self._acts_too_late(reply):
                used_up = no_step_left(self.options)
                if not self._is_held_at(used_up):
                    return await self._stop_at(used_up)
                await self.effects.hold(used_up, "budget")
            reply = await self._check_output(reply)
            if calls := reply.message.tool_calls:
                await self._run_tools(reply.message, calls)
                await self._hand_off()
            elif not await self._goes_on_after(reply):
                return self._answer(reply)

    def _acts_too_late(self, reply: ModelReply) -> bool:
        """Return whether the model wrote an action instead of its answer, with no step left for
        it.
        """
        return self.state.steps > self.options.max_iterations and bool(reply.message.tool_calls)

    def _check_cancellation(self) -> None:
        """§13.2"""
        if self.effects.cancelled():
            raise Cancelled

    def _drain_steering(self) -> None:
        """§13.5"""
        if texts := self.effects.drain_steering():
            self.append([Message.user(text) for text in texts])
            self.emit_status(f"Injected {len(texts)} steering message(s)")
            self.state.answering &= self._has_no_steps()

    def _has_no_steps(self) -> bool:
        return self.state.steps >= self.options.max_iterations

    def _reached_limit(self) -> RunError | None:
        return reached_limit(self.options, self.state, self.effects.now())

    async def _final_limit(self) -> RunError | None:
        """Return the limit that forbids another model call; a held run first waits for people to
        raise it.
        """
        while (limit := self._reached_limit()) and self._is_held_at(limit):
            await self.effects.hold(limit, "budget")
        return limit

    def _is_held_at(self, limit: RunError) -> bool:
        """Return whether the run is held until an option has a higher value."""
        option = (
            limit.option if isinstance(limit, LimitExceededError | MaxIterationsError) else None
        )
        if self.options.on_limit != "raise" or option is None:
            return False
        return self.effects.is_held_for("budget")

    async def _make_room(self, error: ModelError | None) -> bool:
        """Cut a conversation that is too long for its model; return whether that may help."""
        made = await self._window.make_room(error) if error else await self._window.trim()
        await self._check_input()
        self._check_cancellation()
        return made

    async def _check_input(self) -> None:
        """§13.4"""
        if "input" not in self._guarded:
            self.state.unchecked = 0
            return
        verdict = checked_verdict("input", await self.effects.judge_input(self.conversation))
        if not verdict.allowed:
            end = len(self.conversation.messages)
            self.state.refused = [max(0, end - self.state.unchecked), end]
            self._deny("Input", verdict.reason)
        self.state.unchecked = 0
        if verdict.rewrite is not None and verdict.rewrite != self.conversation.messages:
            self.conversation.rewrite(verdict.rewrite)
            self.emit_messages()

    async def _call_model(self, *, with_tools: bool = True) -> ModelReply:
        """§9.10"""
        offered = await self._prepare_tools() if with_tools and "tools" in self._guarded else None
        self._tools.offered = offered
        reply = await self._calls.make(with_tools=with_tools, offered=offered)
        self._window.suggest(reply)
        # The provider's own response is passed on unchanged (§13.7).
        return reply.model_copy(update={"faults": []}) if self.options.raw else reply

    async def _prepare_tools(self) -> dict[str, str | None]:
        """Return the tools offered to the model in this iteration, with their descriptions."""
        verdict = checked_verdict(
            "tools", await self.effects.prepare_tools(self.conversation, self.state.iteration)
        )
        if not verdict.allowed:
            raise ExecuteError(f"No tools to offer: {verdict.reason}", reason="prepare_tools")
        return dict(verdict.rewrite or {})

    async def _check_output(self, reply: ModelReply) -> ModelReply:
        """§13.4"""
        if "output" not in self._guarded:
            return reply
        judged = await self.effects.judge_output(reply.message)
        verdict = checked_verdict("output", judged)
        if not verdict.allowed:
            self._deny("Output", verdict.reason)
        if verdict.rewrite is None:
            is_told = judged.faults and not self.options.raw
            return reply.model_copy(update={"faults": judged.faults}) if is_told else reply
        return with_text(reply, verdict.rewrite, judged.faults, structured=self._structured)

    async def _run_tools(self, message: Message, calls: Sequence[ToolCall]) -> None:
        """§13.6, §13.7 step 8"""
        self.state.note(message.text)
        self.state.answering = False
        results = await self._tools.run(calls)
        self.append([message, *results])

    async def _hand_off(self) -> None:
        """Continue as another agent, if the model asked for that."""
        if self._tools.transfer is None:
            return
        request, path = self._tools.transfer
        name, reason = request.name.removeprefix(TRANSFER), request.arguments.get("reason")
        self.emit(
            "handoff", HandoffData(name=name, reason=str(reason or "")), call_id=request.call_id
        )
        self.state.begin_as_another()
        while not self.effects.cancelled():
            self._drain_steering()
            await self.effects.hand_off(path)

    async def _goes_on_after(self, reply: ModelReply) -> bool:
        """Return whether the model is called again after an answer: to read a steering message, or
        because it paused, or because the answer does not fit.
        """
        may_retry = reply.faults and self.state.output_retries < self.options.output_retries
        limit = await self._final_limit() if may_retry else self._reached_limit()
        is_steered = self.effects.has_steering() and not limit and not self._has_no_steps()
        is_paused = reply.ended == "paused"
        if not (is_steered or is_paused or reply.faults):
            return False
        self.state.note(reply.message.text)
        self.append([reply.message])
        if not (is_steered or is_paused):
            status, correction = send_back(
                reply, self.state, self.options, limit, structured=self._structured
            )
            self.emit_status(status)
            self.append([correction])
        return True

    def _answer(self, reply: ModelReply) -> Outcome:
        self.append([reply.message])
        return outcome_of(reply, self.options, structured=self._structured)

    async def _stop_at(self, limit: RunError) -> Outcome:
        match self.options.on_limit:
            case "raise":
                raise limit
            case "partial":
                text = partial_text(self.options, self.state)
                return Outcome(text, text, "limit", is_incomplete=True)
            case "final_answer":
                return await self._final_answer()

    async def _final_answer(self) -> Outcome:
        """Call the model once more, without tools."""
        await self._window.trim()
        await self._check_input()
        self._check_cancellation()
        try:
            reply = await self._call_model(with_tools=False)
        except ExecuteError as error:
            if error.reason != "empty":
                raise
            reply = ModelReply(message=Message.assistant(partial_text(self.options, self.state)))
        reply = await self._check_output(reply)
        if reply.message.tool_calls or not reply.message.text:
            text = reply.message.text or partial_text(self.options, self.state)
            reply = reply.model_copy(update={"message": Message.assistant(text)})
        elif reply.faults:
            self.append([reply.message])
            raise output_error(reply, self.state, self._reached_limit())
        outcome = self._answer(reply)
        outcome.is_incomplete, outcome.cut_short = True, outcome.cut_short or "limit"
        return outcome

    def _deny(self, point: str, reason: str | None) -> NoReturn:
        self.emit("error", ErrorData(message=f"{point} guardrail denied: {reason}"))
        raise GuardrailError(f"{point} guardrail denied: {reason}", reason=reason)
