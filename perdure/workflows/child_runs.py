"""Runs another agent as a tool call, in a child workflow that is an ordinary run (requirement
§9.6).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from hashlib import blake2b
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.exceptions import (
    ApplicationError,
    CancelledError,
    ChildWorkflowError,
    FailureError,
    TerminatedError,
    WorkflowAlreadyStartedError,
)
from temporalio.workflow import ChildWorkflowHandle, ParentClosePolicy

from ..errors import LoadError, RunCancelled, RunError
from ..event_data import ChildStartedData
from ..loop.child_runs import answer_result, child_options, depth_refusal, failure_result
from ..loop.effects import Cancelled
from ..loop.limits import Allowance, ChildEnd
from ..messages import ToolResult
from ..protocol import activities, names
from ..protocol.descriptions import details_of, memo_of, shown_name, summary_of
from ..protocol.outcome import RunFailure, RunOutput
from ..protocol.run import Lineage, RunInput
from ..protocol.search_attributes import AGENT, ORIGIN, SESSION, STATUS, TENANT, keyword
from ..settings.child_agents import agents_for
from ..tool_calls import ChildRun, PreparedRun, ToolRequest, ToolSpec
from ..trace_ids import TraceIds
from .approvers import passed_on
from .policies import WORKFLOW_TASK_TIMEOUT
from .recording import CERTAIN_BYTES, uncompressed_bytes
from .run_state import DelegatedCall, RunState
from .waiting import wait_a_little, wait_until

Result = TypeVar("Result")

MAX_PARENT_BYTES = 900
"""A child's id begins with its parent's id up to this length: Temporal allows ids of 1,000
bytes."""
PATIENCE = 10.0
"""Seconds that a child has to end after the request to cancel it."""


def child_id(request: ToolRequest) -> str:
    """Return the id of the child that executes a call. It is deterministic, and unique to the
    call.
    """
    run = workflow.info().workflow_id
    if len(run.encode()) > MAX_PARENT_BYTES:
        run = blake2b(run.encode(), digest_size=16).hexdigest()
    return f"{run}/{request.iteration}-{request.index}"


async def child_result(
    handle: ChildWorkflowHandle[Any, Result],
    cancelled: Callable[[], bool],
    *,
    grace: float = 0.0,
    patience: float = PATIENCE,
) -> Result:
    """Return the child's result. If `cancelled()` becomes true first, the child is cancelled
    `grace` seconds later.

    If the child has ended by then, or still succeeds, its result is returned. Raises
    `ChildWorkflowError`, whose cause is a `CancelledError` where the child ended as cancelled, and
    `Cancelled` when the child has not ended `patience` seconds after the request. The parent close
    policy then applies to the child.
    """
    await wait_until(lambda: handle.done() or cancelled())
    if not await wait_a_little(handle, grace, "grace period of a running child"):
        await request_cancel(handle)
        if not await wait_a_little(handle, patience, "a cancelled child has this long to end"):
            handle.add_done_callback(
                lambda late: late.cancelled() or late.exception()
            )  # Nothing awaits it any longer.
            raise Cancelled
    return await handle


async def request_cancel(handle: ChildWorkflowHandle[Any, Any]) -> None:
    """Ask the child to end; returns when the server has recorded the request, not when the child
    has ended.

    The request names the workflow id alone. A request by handle names the child's first run, and
    the server drops it silently after the child has continued as new
    (https://github.com/temporalio/features/issues/503).
    """
    try:
        await workflow.get_external_workflow_handle(handle.id).cancel()
    except FailureError as error:  # It has just ended.
        workflow.logger.debug("the child %s can't be cancelled any more: %s", handle.id, error)


Prepare = Callable[[ToolRequest, ToolSpec], Awaitable[ToolResult]]


class ChildRuns:
    """The runs that one link has called. The link continues as new only after they have ended: see
    `ContinueAsNew`.
    """

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._input = state.input

    async def run(
        self, request: ToolRequest, spec: ToolSpec, allowance: Allowance, prepare: Prepare
    ) -> ChildEnd:
        """Start the run that the call asks for, and await it. A failure of that run is a result,
        not an exception.
        """
        lineage = self._input.lineage
        if refused := depth_refusal(
            request.name, self._input.options, lineage.depth if lineage else 0
        ):
            return ChildEnd(refused)
        prepared = await prepare(request, spec)
        if not isinstance(prepared, PreparedRun) or prepared.messages is None:
            return ChildEnd(prepared)
        if self._state.cancelled:
            return ChildEnd(ToolResult.cancellation())
        assert isinstance(spec.execution, ChildRun)
        try:
            input = child_input(self._input, spec.execution, prepared, request, allowance)
        except LoadError as error:
            return _failed_end(request, str(error), activities.CONFIGURATION_ERROR)
        if (size := uncompressed_bytes(input)) > CERTAIN_BYTES:
            text = f"its input takes {size} bytes, at most {CERTAIN_BYTES} are possible"
            return _failed_end(request, text, "too_large")
        return await self._run(request, spec, input)

    async def _run(self, request: ToolRequest, spec: ToolSpec, input: RunInput) -> ChildEnd:
        id, since = child_id(request), workflow.time()
        input.requested_by = (
            passed_on(self._state.requests, id, input.content) if self._state.requests else None
        )
        try:
            handle = await self._start(id, input)
        except WorkflowAlreadyStartedError:
            return _failed_end(
                request, f"a run of the id {id!r} is already open", "already_started"
            )
        self._state.children.append(id)
        first_run_id = handle.first_execution_run_id or ""
        call = DelegatedCall(request, since, id, first_run_id)
        self._state.delegated.append(call)
        data = ChildStartedData(name=request.name, run_id=id, first_run_id=first_run_id)
        self._state.emit("child_started", data, call_id=request.call_id)
        try:
            return await call.wait_for(self._wait_for_end(handle, request, spec))
        finally:
            self._state.children.remove(id)

    async def _start(self, id: str, input: RunInput) -> ChildWorkflowHandle[Any, RunOutput]:
        return await workflow.start_child_workflow(
            names.WORKFLOW,
            input,
            id=id,
            result_type=RunOutput,
            # A terminated caller leaves no orphaned run behind.
            parent_close_policy=ParentClosePolicy.REQUEST_CANCEL,
            task_timeout=WORKFLOW_TASK_TIMEOUT,
            memo=memo_of(input),
            search_attributes=attributes_for(input),
            static_summary=summary_of(input),
            static_details=details_of(input),
        )

    async def _wait_for_end(
        self, handle: ChildWorkflowHandle[Any, RunOutput], request: ToolRequest, spec: ToolSpec
    ) -> ChildEnd:
        is_late = spec.timeout is not None and not await wait_until(
            lambda: handle.done() or self._state.cancelled, spec.timeout
        )
        try:
            # The run gives its own tools their grace period.
            output = await child_result(
                handle,
                lambda: is_late or self._state.cancelled,
                patience=self._input.options.cancel_grace + PATIENCE,
            )
        except (ChildWorkflowError, Cancelled) as error:
            end = _end_without_output(request, error)
            return replace(end, result=_late_result(request, spec)) if is_late else end
        return _child_end(answer_result(output.output), output)


def child_input(
    caller: RunInput,
    call: ChildRun,
    prepared: PreparedRun,
    request: ToolRequest,
    allowance: Allowance,
) -> RunInput:
    """Return the input of the called run. Raises LoadError for an invalid setting in an agent's
    file.
    """
    agents = {**caller.agents, **call.agents}
    agent, is_single = agents[call.path], call.mode == "single"
    options = child_options(
        caller.options, allowance, single=is_single, caller=caller.agent, called=agent
    )
    info, above = workflow.info(), caller.lineage
    ids = TraceIds.of(
        info.namespace, info.workflow_id, info.first_execution_run_id, above.trace if above else ""
    )
    return RunInput(
        agent=agent.model_copy(update={"tools": None}) if is_single else agent,
        messages=prepared.messages or [],
        inputs=prepared.inputs,
        deps=caller.deps,
        options=options,
        loop_version=caller.loop_version,
        search_attributes=caller.search_attributes,
        agents={} if is_single else agents_for(agent, agents),
        handoffs={} if is_single else prepared.handoffs,
        lineage=Lineage(
            parent=info.workflow_id,
            call_id=request.call_id,
            depth=above.depth + 1 if above else 1,
            trace=ids.child_traceparent(request.iteration, request.index),
        ),
    )


def attributes_for(input: RunInput, *, session: str | None = None) -> TypedSearchAttributes | None:
    """Return the search attributes of a child with this input, limited to those of its caller: an
    unregistered attribute would block the caller for ever. `session` applies to a child that is not
    a turn of its caller's session.
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
    known = {
        key: value
        for key, value in values.items()
        if key.name in input.search_attributes and value is not None
    }
    return (
        TypedSearchAttributes([SearchAttributePair(key, value) for key, value in known.items()])
        if known
        else None
    )


def _child_end(result: ToolResult, ending: RunOutput | RunFailure) -> ChildEnd:
    return ChildEnd(
        result,
        ending.usage,
        ending.tool_calls,
        ending.cost_usd,
        ending.unpriced_calls,
    )


def _end_without_output(request: ToolRequest, error: ChildWorkflowError | Cancelled) -> ChildEnd:
    cause = error.cause if isinstance(error, ChildWorkflowError) else None
    if isinstance(error, Cancelled) or isinstance(cause, CancelledError):
        return ChildEnd(
            failure_result(request.name, RunCancelled("")), unpriced_calls=1, is_told=False
        )
    if isinstance(cause, ApplicationError) and cause.details:
        failure = RunFailure.model_validate(cause.details[0])
        return _child_end(
            failure_result(request.name, RunError(cause.message, kind=failure.kind)), failure
        )
    if isinstance(cause, ApplicationError):
        return _failed_end(request, cause.message, cause.type or "failed")
    kind = "terminated" if isinstance(cause, TerminatedError) else "failed"
    end = _failed_end(request, f"the run was ended from outside: {cause or error}", kind)
    result = end.result.model_copy(update={"outcome_unknown": True})
    return replace(end, result=result, unpriced_calls=1, is_told=False)


def _failed_end(request: ToolRequest, text: str, kind: str) -> ChildEnd:
    return ChildEnd(failure_result(request.name, RunError(text, kind=kind)))


def _late_result(request: ToolRequest, spec: ToolSpec) -> ToolResult:
    text = f"Error: Tool '{request.name}' failed: timed out after {spec.timeout:g} seconds"
    return ToolResult.failure(text, kind="timeout", status="timeout", outcome_unknown=True)
