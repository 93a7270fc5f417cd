"""Runs the same loop without Temporal and calls its effects directly: tests of agents take
milliseconds.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, ClassVar, Generic, ParamSpec

from typing_extensions import TypeVar

from ..activities.hooks import POINTS, Hooks
from ..agents import Agent, LoadedFrom, loaded_from, others_of, with_others
from ..client.callers import wait_for_result
from ..client.output_type import OutputType, typed_output, with_output_type
from ..client.run_input import loaded_agent, recorded_deps
from ..conversation import Conversation, count_of_instructions
from ..conversation import Instruct as Instructions
from ..errors import LoadError, RunError, ToolNotRegisteredError
from ..event_data import ChildStartedData, FailedData, LoggedMessagesUpdatedData, StatusData
from ..guardrails import (
    UNSEEN,
    Compactor,
    Guardrails,
    Instruct,
    with_instructions_by,
    with_validator,
)
from ..loop.child_runs import answer_result, child_options, depth_refusal, end_of, failure_result
from ..loop.limits import Allowance, ChildEnd
from ..loop.loop import AgentLoop
from ..loop.state import LoopState, Outcome
from ..messages import Message
from ..options import RunOptions, options_of
from ..prompty.prepare import instructions_by_path, prepare
from ..prompty.rich_values import with_media_read
from ..protocol.activities import CONFIGURATION_ERROR
from ..protocol.outcome import RunResult
from ..redaction import redactor
from ..settings.agent_file import options_after_handoff, options_for
from ..settings.child_agents import handoffs_of
from ..settings.delegates import with_delegates
from ..tool_calls import ChildRun, PreparedRun, ToolRequest, ToolSpec
from ..tools.context import ToolContext, open_deps
from ..tools.dispatch import ToolBox
from ..tools.files import agents_of_run, record_tools
from ..tools.handlers import collect_tools, toolset_of
from ..tools.kind import Asking, Kinds, ToolKind
from .direct_effects import (
    AnswerFunction,
    ApproveFunction,
    DirectEffects,
    EventCallback,
    HandedOff,
    Tools,
)
from .direct_model import Model, model_function

T = TypeVar("T", default=Any)


class InProcessRun(Generic[T]):
    """One run of an agent in this process.

    `agent` may be the path of a `.prompty` file; its `${env:…}` references need no values. The
    conversation starts from `messages`, or from the agent's prompt with `inputs`; `deps` are as for
    `start_run`. `model` replaces the provider: a list of replies, in order, or a function of the
    agent and the conversation. `approve` decides about tool calls that need an approval, and
    `answer` answers the questions of `ask_user`; without them, these calls are denied.
    `on_event(type, data)`, plain or async, gets every event in order.

    With `output_type`, the model answers in that type's form, and the result's `output` is a value
    of that type.

    Plain tools run in threads of their own.

    Raises TypeError for an argument of the wrong type, and the errors of `load`, `prepare` and
    `with_output_type`.
    """

    effects_type: ClassVar[type[DirectEffects]] = DirectEffects
    """A subclass of the run may name a subclass of the effects, for example with another clock."""

    def __init__(
        self,
        agent: Agent | str | PathLike[str],
        messages: Sequence[Message] | None = None,
        *,
        model: Model,
        inputs: Mapping[str, Any] | str | None = None,
        tools: Tools = (),
        tool_kinds: Mapping[str, ToolKind] | None = None,
        resources: Mapping[type, Callable[..., Any]] | None = None,
        deps: Any = None,
        instructions: Mapping[str, Instruct] | None = None,
        options: RunOptions | Mapping[str, Any] | None = None,
        guardrails: Guardrails | None = None,
        compactor: Compactor | None = None,
        approve: ApproveFunction | None = None,
        answer: AnswerFunction | None = None,
        on_event: EventCallback | None = None,
        output_type: OutputType[T] | None = None,
    ) -> None:
        given = loaded_agent(agent)
        loaded = with_delegates(given, os.environ)
        loaded, others = record_tools(loaded, Kinds(tool_kinds))
        others = agents_of_run(loaded, others)
        loaded, known = with_others(loaded, others), loaded_from(given)
        output_type = known.output_type if output_type is None else output_type
        tools = {**collect_tools([given]), **collect_tools(tools)}
        self._instructions = {**toolset_of([given]).instructions, **(instructions or {})}
        self._output_type = output_type
        self._guardrails = guardrails
        self._origins = {**known.handoffs, known.path: replace(known, output_type=output_type)}
        if output_type is not None:
            loaded = with_output_type(loaded, output_type)
        inputs = with_media_read(loaded, inputs or {})
        self._handoffs = self._instructions_by_path(handoffs_of(loaded, others), inputs)
        self.conversation = Conversation(prepare(loaded, inputs) if messages is None else messages)
        self.effects = self.effects_type(
            agent=loaded,
            conversation=self.conversation,
            model=model_function(model),
            toolbox=ToolBox(tools, kinds=tool_kinds, resources=resources),
            inputs=_with_defaults(loaded, inputs),
            options=options_for(loaded, options, os.environ),
            guardrails=with_validator(guardrails, known.output_validator),
            compactor=compactor,
            prepare=toolset_of([given]).prepare_tools,
            approve_call=approve,
            answer_call=answer,
            on_event=on_event,
            call_agent=self._call_agent,
            deps=recorded_deps(deps, redactor(loaded)),
        )
        self._given = (options_of(options)).model_fields_set
        self._depth = 0
        self._state = LoopState()
        self._tools, self._tool_kinds, self._resources = tools, tool_kinds, resources
        self._called: set[InProcessRun] = set()

    def _instructions_by_path(
        self, others: dict[str, Agent], inputs: Mapping[str, Any]
    ) -> dict[str, list[Message]]:
        return instructions_by_path(others, inputs)

    def steer(self, text: str) -> None:
        """Send the agent a message (§13.5). Callable from any thread."""
        self.effects.steering.append(text)

    def cancel(self) -> None:
        """End the run at its next checkpoint, and its waits at once (§13.2). Callable from any
        thread.
        """
        self.effects.cancel()
        for run in list(self._called):
            run.cancel()

    async def run(self) -> RunResult[T]:
        """Run to the end. Raises `RunError` with the conversation if there is no result.

        Kind `output` means that the answer is not a value of the `output_type`.
        """
        self.effects.waits.begin()
        try:
            return await self._run()
        finally:
            await self.effects.catch_up()
            await self.effects.toolbox.close()

    async def _run(self) -> RunResult[T]:
        state: LoopState | None = None
        await self._instruct(
            list(self.conversation.messages[: count_of_instructions(self.conversation.messages)])
        )
        while True:
            self.effects.specs = await self._offered_tools()
            loop = self._loop(state)
            self._state = state = loop.state
            try:
                return self._result(await loop.run(), loop.state)
            except HandedOff as handed:
                self._switch_to_agent(handed.args[0])
                await self._instruct(self._handoffs[handed.args[0]])
            except RunError as error:
                error.messages = list(self.conversation.messages)
                raise
            except Exception as error:
                self.effects.emit(
                    "failed",
                    loop.state.iteration,
                    FailedData(kind="internal", message=f"{error!r}"),
                )
                raise

    def _switch_to_agent(self, path: str) -> None:
        effects, others = self.effects, others_of(self.effects.agent)
        effects.options = options_after_handoff(
            effects.options, effects.agent, others[path], self._given
        )
        effects.agent = with_others(others[path], others)
        known = self._origins.get(path, LoadedFrom())
        self._output_type = known.output_type
        effects.guard(with_validator(self._guardrails, known.output_validator))

    async def _instruct(self, own: list[Message]) -> None:
        """Begin the conversation with the agent's instructions, and with those of its function."""
        effects, known = self.effects, self.conversation.messages
        if (name := effects.options.instructions_by) is not None:
            hooks = Hooks({}, {}, instructions=self._instructions)
            text = await hooks.instruct(
                name, effects.inputs, ToolContext(deps=open_deps(effects.deps))
            )
            own = with_instructions_by(
                name, text, own, replaced=effects.options.instructions_replaced
            )
        if own != known[: count_of_instructions(known)]:
            self.conversation.apply(Instructions(messages=own))
            effects.emit("messages_updated", self._state.iteration, LoggedMessagesUpdatedData())

    async def _offered_tools(self) -> dict[str, ToolSpec]:
        inventory = await self.effects.toolbox.inventory(
            Asking(
                self.effects.agent,
                self.effects.inputs,
                agents=others_of(self.effects.agent),
                deps=self.effects.deps,
            )
        )
        for text in [*inventory.problems, *map(str, inventory.unknown)]:
            self.effects.emit("failed", 0, FailedData(kind=CONFIGURATION_ERROR, message=text))
            raise RunError(text, kind=CONFIGURATION_ERROR, messages=self.conversation.messages)
        for name, kind in inventory.missing.items():
            text = f"No handler registered for tool: {name} (kind: {kind})"
            error = ToolNotRegisteredError(text, messages=self.conversation.messages)
            self.effects.emit("failed", 0, FailedData(kind=error.kind, message=text))
            raise error
        unavailable = [
            f"The model is not offered {name}: {why}" for name, why in inventory.unavailable.items()
        ]
        for text in [*unavailable, *inventory.notes]:
            self.effects.emit("status", 0, StatusData(message=text))
        self.effects.agent = self.effects.agent.with_declarations(inventory.offered)
        asks = bool(self.effects.guardrails and self.effects.guardrails.tool)
        return {
            spec.name: spec.described(self.effects.agent, may_ask=asks) for spec in inventory.tools
        }

    def _loop(self, state: LoopState | None) -> AgentLoop:
        effects = self.effects
        return AgentLoop(
            effects,
            self.conversation,
            effects.options,
            tools=effects.specs,
            guarded=frozenset(
                point for point in POINTS if (effects.guardrails or Guardrails()).callbacks(point)
            )
            | ({"tools"} if effects.options.prepare_tools else set())
            | ({UNSEEN} if effects.guardrails and effects.guardrails.output else set()),
            compacted=effects.compactor is not None,
            structured=bool(effects.agent.outputs),
            models=[model.name for model in effects.agent.models],
            state=state,
        )

    async def _call_agent(self, request: ToolRequest, allowance: Allowance) -> ChildEnd:
        """Run another agent with this run's model, tools and callbacks; drop its events."""
        effects, call = self.effects, self.effects.specs[request.name].execution
        if refused := depth_refusal(request.name, effects.options, self._depth):
            return ChildEnd(refused)
        prepared = await effects.run_tool(request)
        if not isinstance(prepared, PreparedRun) or prepared.messages is None:
            return ChildEnd(prepared)
        assert isinstance(call, ChildRun)
        try:
            options = self._options_of(call, allowance)
        except LoadError as error:
            return ChildEnd(
                failure_result(request.name, RunError(str(error), kind=CONFIGURATION_ERROR))
            )
        run = self._child(call, prepared, options)
        run._depth = self._depth + 1
        data = ChildStartedData(
            name=request.name, run_id=f"{request.iteration}-{request.index}", first_run_id=""
        )
        effects.emit("child_started", request.iteration, data, call_id=request.call_id)
        self._called.add(run)
        if effects.cancelled():
            run.cancel()
        try:
            result = await run.run()
        except RunError as error:
            return end_of(failure_result(request.name, error), run._state)
        finally:
            self._called.discard(run)
        return end_of(answer_result(result.output), run._state)

    def _options_of(self, call: ChildRun, allowance: Allowance) -> RunOptions:
        caller, options = self.effects.agent, self.effects.options
        called = child_options(
            options,
            allowance,
            single=call.mode == "single",
            caller=caller,
            called=others_of(caller)[call.path],
        )
        return RunOptions(
            **dict(called)
        )  # All options are set, so the called run takes none from its file.

    def _child(self, call: ChildRun, prepared: PreparedRun, options: RunOptions) -> InProcessRun:
        effects = self.effects
        others = others_of(effects.agent)
        called = others[call.path].model_copy(
            update={"tools": None} if call.mode == "single" else {}
        )
        return type(self)(
            with_others(called, others),
            prepared.messages,
            model=effects.model,
            inputs=prepared.inputs,
            tools=self._tools,
            tool_kinds=self._tool_kinds,
            resources=self._resources,
            deps=effects.deps,
            instructions=self._instructions,
            options=options,
            guardrails=effects.guardrails,
            compactor=effects.compactor,
            approve=effects.approve_call,
            answer=effects.answer_call,
        )

    def _result(self, outcome: Outcome, state: LoopState) -> RunResult[T]:
        result: RunResult[T] = RunResult(
            output=outcome.output,
            iterations=state.iterations,
            messages=list(self.conversation.messages),
            usage=state.usage,
            agent=self.effects.agent.name,
            cost_usd=state.cost_usd,
            unpriced_calls=state.unpriced_calls,
            is_incomplete=outcome.is_incomplete,
            cut_short=outcome.cut_short,
            unread_steering=list(self.effects.unread),
        )
        if self._output_type is not None and not self.effects.options.raw:
            result.output = typed_output(result, self._output_type)
        return result


def _with_defaults(agent: Agent, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs available for tool bindings."""
    defaults = {
        declared.name: declared.default
        for declared in agent.inputs or []
        if declared.default is not None
    }
    return {**defaults, **inputs}


P = ParamSpec("P")


def _run_to_end(make: Callable[P, InProcessRun[T]]) -> Callable[P, RunResult[T]]:
    @functools.wraps(make, assigned=(), updated=())
    def run_in_process(*arguments: P.args, **named: P.kwargs) -> RunResult[T]:
        """Run an agent in this process and return its result; the arguments are those of
        `InProcessRun`.

        Callable in a thread with a running event loop. Raises the errors of `InProcessRun` and its
        `run`.
        """
        return wait_for_result(make(*arguments, **named).run())

    return run_in_process


run_in_process = _run_to_end(InProcessRun)
"""Run an agent in this process and return its result; the arguments are those of `InProcessRun`."""
