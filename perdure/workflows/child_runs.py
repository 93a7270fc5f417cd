"""Runs another agent as a tool call: a child workflow, which is a run like any other (requirement §9.6)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.exceptions import (
    ApplicationError,
    CancelledError,
    ChildWorkflowError,
    TerminatedError,
    WorkflowAlreadyStartedError,
)
from temporalio.workflow import ChildWorkflowHandle, ParentClosePolicy

from ..child_agents import agents_for
from ..errors import LoadError, RunCancelled, RunError
from ..event_data import ChildStartedData
from ..events import EventLog
from ..loop.allowance import Allowance, ChildEnd
from ..loop.called import answered, child_options, failed_run, too_deep
from ..loop.effects import Cancelled
from ..messages import ToolResult
from ..protocol import activities, names
from ..protocol.features import needed_by
from ..protocol.outcome import RunFailure, RunOutput
from ..protocol.run import Lineage, RunInput
from ..protocol.search_attributes import AGENT, ORIGIN, SESSION, STATUS, TENANT, keyword
from ..protocol.shown import details_of, shown_name, summary_of
from ..tool_calls import ChildRun, PreparedRun, ToolRequest, ToolSpec
from ..trace_ids import TraceIds
from .children import PATIENCE, child_id, child_result
from .inbox import Inbox
from .policies import WORKFLOW_TASK_TIMEOUT
from .recording import CERTAIN_BYTES, uncompressed_bytes
from .run_record import DelegatedCall

Prepare = Callable[[ToolRequest, ToolSpec], Awaitable[ToolResult]]


class ChildRuns:
    """The runs that one link has called. The link goes on only when they have ended: see `ContinueAsNew`."""

    def __init__(self, input: RunInput, inbox: Inbox, events: EventLog, on_start: Callable[[], None]) -> None:
        self._input = input
        self._inbox = inbox
        self._events = events
        self._on_start = on_start
        self.running: list[str] = []
        """Their ids, while they are awaited."""
        self.delegated: list[DelegatedCall] = []
        """All calls of this link that others have executed."""

    async def run(self, request: ToolRequest, spec: ToolSpec, allowance: Allowance, prepare: Prepare) -> ChildEnd:
        """Start the run that the call asks for, and await it. Never raises for what it does."""
        lineage = self._input.lineage
        if refused := too_deep(request.name, self._input.options, lineage.depth if lineage else 0):
            return ChildEnd(refused)
        prepared = await prepare(request, spec)
        if not isinstance(prepared, PreparedRun) or prepared.messages is None:
            return ChildEnd(prepared)
        if self._inbox.cancelled:
            return ChildEnd(failed_run(request.name, RunCancelled("")))
        assert isinstance(spec.execution, ChildRun)
        try:
            input = child_input(self._input, spec.execution, prepared, request, allowance)
        except LoadError as error:
            return _failed(request, str(error), activities.CONFIGURATION_ERROR)
        if (size := uncompressed_bytes(input)) > CERTAIN_BYTES:
            return _failed(request, f"its input takes {size} bytes, at most {CERTAIN_BYTES} are possible", "too_large")
        return await self._run(request, spec, input)

    async def _run(self, request: ToolRequest, spec: ToolSpec, input: RunInput) -> ChildEnd:
        id, since = child_id(request), workflow.time()
        try:
            handle = await self._start(id, input)
        except WorkflowAlreadyStartedError:
            return _failed(request, f"a run of the id {id!r} is under way already", "already_started")
        self.running.append(id)
        first_run_id = handle.first_execution_run_id or ""
        call = DelegatedCall(request, since, id, first_run_id)
        self.delegated.append(call)
        data = ChildStartedData(name=request.name, run_id=id, first_run_id=first_run_id)
        self._events.append("child_started", request.iteration, data, time=workflow.time(), call_id=request.call_id)
        self._on_start()
        try:
            return await call.ended(self._end_of(handle, request, spec))
        finally:
            self.running.remove(id)

    async def _start(self, id: str, input: RunInput) -> ChildWorkflowHandle[Any, RunOutput]:
        return await workflow.start_child_workflow(
            names.WORKFLOW,
            input,
            id=id,
            result_type=RunOutput,
            # A caller that is terminated leaves no run behind that nobody waits for.
            parent_close_policy=ParentClosePolicy.REQUEST_CANCEL,
            task_timeout=WORKFLOW_TASK_TIMEOUT,
            memo={"agent": shown_name(input.agent)},
            search_attributes=attributes_for(input),
            static_summary=summary_of(input),
            static_details=details_of(input),
        )

    async def _end_of(
        self, handle: ChildWorkflowHandle[Any, RunOutput], request: ToolRequest, spec: ToolSpec
    ) -> ChildEnd:
        is_late = False
        if spec.timeout is not None:
            try:
                await workflow.wait_condition(lambda: handle.done() or self._inbox.cancelled, timeout=spec.timeout)
            except TimeoutError:
                is_late = True
        try:
            # The run gives its own tools their grace period.
            output = await child_result(
                handle,
                lambda: is_late or self._inbox.cancelled,
                patience=self._input.options.cancel_grace + PATIENCE,
            )
        except (ChildWorkflowError, Cancelled) as error:
            end = _ended_badly(request, error)
            return replace(end, result=_late(request, spec)) if is_late else end
        return _ended(answered(output.output), output)


def child_input(
    caller: RunInput, call: ChildRun, prepared: PreparedRun, request: ToolRequest, allowance: Allowance
) -> RunInput:
    """What the called run starts with. Raises LoadError for a setting of an agent's file that is wrong."""
    agents = {**caller.agents, **call.agents}
    agent, is_single = agents[call.path], call.mode == "single"
    options = child_options(caller.options, allowance, single=is_single, caller=caller.agent, called=agent)
    info, above = workflow.info(), caller.lineage
    ids = TraceIds.of(info.namespace, info.workflow_id, info.first_execution_run_id, above.trace if above else "")
    return RunInput(
        agent=agent.model_copy(update={"tools": None}) if is_single else agent,
        messages=prepared.messages or [],
        inputs=prepared.inputs,
        options=options,
        features=list(dict.fromkeys([*caller.features, *needed_by(options)])),
        search_attributes=caller.search_attributes,
        agents={} if is_single else agents_for(agent, agents),
        lineage=Lineage(
            parent=info.workflow_id,
            call_id=request.call_id,
            depth=above.depth + 1 if above else 1,
            trace=ids.called(request.iteration, request.index),
        ),
    )


def attributes_for(input: RunInput, *, session: str | None = None) -> TypedSearchAttributes | None:
    """Those of a child with this input, which its caller has too: to set one that is not registered would stop the
    caller for ever. `session` is for one that is no turn of its caller's session.
    """
    info = workflow.info()
    of_caller = info.typed_search_attributes
    values: dict[SearchAttributeKey[str], str | None] = {
        AGENT: keyword(shown_name(input.agent)),
        STATUS: "running",
        ORIGIN: keyword(info.workflow_id),
        TENANT: of_caller.get(TENANT),
        SESSION: keyword(session) if session else of_caller.get(SESSION),
    }
    known = {key: value for key, value in values.items() if key.name in input.search_attributes and value is not None}
    return TypedSearchAttributes([SearchAttributePair(key, value) for key, value in known.items()]) if known else None


def _ended(result: ToolResult, told: RunOutput | RunFailure) -> ChildEnd:
    return ChildEnd(result, told.usage, told.tool_calls, told.cost_usd, told.unpriced_calls)


def _ended_badly(request: ToolRequest, error: ChildWorkflowError | Cancelled) -> ChildEnd:
    cause = error.cause if isinstance(error, ChildWorkflowError) else None
    if isinstance(error, Cancelled) or isinstance(cause, CancelledError):
        return ChildEnd(failed_run(request.name, RunCancelled("")), unpriced_calls=1)
    if isinstance(cause, ApplicationError) and cause.details:
        failure = RunFailure.model_validate(cause.details[0])
        return _ended(failed_run(request.name, RunError(cause.message, kind=failure.kind)), failure)
    if isinstance(cause, ApplicationError):
        return _failed(request, cause.message, cause.type or "failed")
    kind = "terminated" if isinstance(cause, TerminatedError) else "failed"
    end = _failed(request, f"the run was ended from outside: {cause or error}", kind)
    return replace(end, result=end.result.model_copy(update={"outcome_unknown": True}), unpriced_calls=1)


def _failed(request: ToolRequest, text: str, kind: str) -> ChildEnd:
    return ChildEnd(failed_run(request.name, RunError(text, kind=kind)))


def _late(request: ToolRequest, spec: ToolSpec) -> ToolResult:
    text = f"Error: Tool '{request.name}' failed: timed out after {spec.timeout:g} seconds"
    return ToolResult.failure(text, kind="timeout", status="timeout", outcome_unknown=True)
