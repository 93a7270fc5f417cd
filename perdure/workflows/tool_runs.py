"""Executes tool calls from the workflow: with an activity of perdure's worker, or as the tool's
kind declares.
"""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import timedelta
from functools import partial

from temporalio import workflow
from temporalio.exceptions import ActivityError
from temporalio.workflow import ActivityHandle

from ..errors import RunError
from ..event_data import StatusData
from ..loop.limits import Allowance, ChildEnd
from ..messages import Postponed, ToolResult
from ..payloads.storage.files import NOT_STORED
from ..protocol import activities
from ..tool_calls import (
    ChildRun,
    ChildWorkflow,
    ForeignActivity,
    PreparedRun,
    ToolRequest,
    ToolSpec,
)
from ..unknown_outcomes import Reconciled, UnknownCall
from . import logging as log_lines
from .child_runs import ChildRuns
from .foreign import ForeignCall
from .offers import Offers
from .pauses import look_at_pauses
from .policies import (
    LOST_WORKER_RETRIES,
    MARGIN,
    MOMENTARY_RETRIES,
    NO_RETRY,
    OFFERED_RETRIES,
    SUSPECT_RETRIES,
    describe_failure,
    failed_result,
)
from .run_state import DelegatedCall, RunState
from .tool_queues import on_tool_queue
from .ui import about_call, call_summary
from .waiting import activity_result, give_up, now, wait_until, wait_until_done

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds before a failed execution is repeated; the pause doubles each time."""
NEVER_REPEATED = (
    "invalid_arguments",
    "configuration",
    "input_required",
    "auth_required",
    activities.WORKER_LOST,
)
"""Kinds of errors that would recur, could crash further workers, or wait for an answer."""


class ToolRuns:
    """Executes the tool calls of one link; a tool's failure never raises."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._options = state.options
        self._offers = Offers(state)
        self._children = ChildRuns(state)

    async def run_agent(self, request: ToolRequest, allowance: Allowance) -> ChildEnd:
        """Return the outcome of another agent's run. Raises as `run` does."""
        return await self._children.run(
            request, self._state.tools[request.name], allowance, self._run_activity
        )

    async def run(self, request: ToolRequest) -> ToolResult:
        """Return the result of one call. Raises a `RunError` for a tool that no worker has."""
        spec = self._state.tools.get(request.name) or ToolSpec(name=request.name)
        match spec.execution:
            case None:
                return await self._run_activity(request, spec)
            case ForeignActivity() as execution:
                return await self._run_delegated(
                    request, self._foreign(request, spec).run_activity(execution)
                )
            case ChildWorkflow() as execution:
                return await self._run_delegated(
                    request, self._foreign(request, spec).run_workflow(execution)
                )
        raise TypeError(f"the loop executes {spec.execution!r} by itself")

    async def reconcile(self, request: ToolRequest, earlier: UnknownCall) -> Reconciled:
        """Return the finding of the tool's reconcile function about an earlier call. Raises
        `Cancelled`, and a `RunError` for a tool that no worker has.
        """
        state, timeout = (
            self._state,
            self._state.tools[request.name].timeout or self._options.tool_timeout,
        )

        async def start(offer: activities.Offer | None) -> Reconciled:
            input = activities.ReconcileInput(
                request=request, idempotency_key=earlier.key, timeout=timeout, offer=offer
            )
            summary = about_call("reconcile", request.name, request.arguments)
            return await activity_result(
                state, activities.RECONCILE, input, Reconciled, timeout, summary
            )

        try:
            return await self._offers.run(start)
        except ActivityError as error:
            return Reconciled(doubt=describe_failure(error)[1])

    def _foreign(self, request: ToolRequest, spec: ToolSpec) -> ForeignCall:
        return ForeignCall(request, spec, self._state)

    async def _run_delegated(
        self, request: ToolRequest, execution: Awaitable[ToolResult]
    ) -> ToolResult:
        await look_at_pauses(self._state)
        call = DelegatedCall(request, now())
        self._state.delegated.append(call)
        return await call.wait_for(execution)

    async def _run_activity(self, request: ToolRequest, spec: ToolSpec) -> ToolResult:
        """Return the result of the first successful execution, or of the last one that
        `ToolSpec.retries` allows.
        """
        for earlier in range(spec.retries):
            result = await self._execute(request, spec, earlier)
            if self._state.cancelled or not may_be_repeated(result, spec):
                return result
            pause, why = (
                min(FIRST_PAUSE * 2.0**earlier, LONGEST_PAUSE),
                f"{request.name} is executed again",
            )
            if await wait_until(lambda: self._state.cancelled, pause, why):
                return result
        return await self._execute(request, spec, spec.retries)

    async def _execute(self, request: ToolRequest, spec: ToolSpec, earlier: int) -> ToolResult:
        self._state.awaited.executing += 1
        try:
            result = await self._execute_now(request, spec, earlier)
        finally:
            self._state.awaited.executing -= 1
        return (
            result
            if result.later is None
            else await self._finished_elsewhere(request, result.later)
        )

    async def _finished_elsewhere(self, request: ToolRequest, postponed: Postponed) -> ToolResult:
        """Wait until another system finishes the call, without occupying a worker, and return the
        result.
        """
        state = self._state
        call = state.awaited.open(request, postponed)
        text = f"Tool {request.name!r} has returned: another system finishes its call"
        state.emit("status", StatusData(message=text), call_id=request.call_id)
        ends = [end for end in (state.deadline, call.shown.deadline) if end is not None]
        await wait_until(
            lambda: state.cancelled or call.completion is not None,
            max(0.0, min(ends) - now()) if ends else None,
            about_call("fails if no system has finished", request.name, request.arguments),
        )
        if call.completion is not None:
            state.awaited.close(call, "")
            return await self._finish(
                activities.FinishInput(request=request, completion=call.completion)
            )
        if state.cancelled:
            state.awaited.close(call, "the run was cancelled")
            return ToolResult.cancellation(outcome_unknown=True)
        is_late = min(ends) == call.shown.deadline
        over = (
            f"within {postponed.seconds:g} seconds"
            if is_late
            else "in the time of the run (max_seconds)"
        )
        state.awaited.close(call, f"no system had finished it {over}")
        text = f"Error: Tool '{request.name}' failed: no system has finished the call {over}"
        return ToolResult.failure(text, kind="timeout", status="timeout", outcome_unknown=True)

    async def _finish(self, input: activities.FinishInput) -> ToolResult:
        handle = workflow.start_activity(
            activities.FINISH_CALL,
            input,
            result_type=ToolResult,
            start_to_close_timeout=MARGIN,
            retry_policy=MOMENTARY_RETRIES,
            summary=call_summary(input.request),
        )
        try:
            return await self._wait_within_grace(handle)
        except ActivityError as error:
            return failed_result(input.request.name, error, MARGIN.total_seconds())

    async def _execute_now(self, request: ToolRequest, spec: ToolSpec, earlier: int) -> ToolResult:
        timeout = spec.timeout or self._options.tool_timeout
        policy = SUSPECT_RETRIES if spec.idempotent else NO_RETRY
        if spec.local:
            await look_at_pauses(self._state)

        def start(offer: activities.Offer | None) -> Awaitable[ToolResult]:
            left = spec.retries - earlier
            make_input = partial(
                activities.ToolInput,
                request=request,
                timeout=timeout,
                earlier=earlier,
                retries_left=left,
                offer=offer,
            )
            if spec.local and offer is None:
                return self._wait_within_grace(_start_local(spec, make_input()))

            def begin(queue: str | None, patience: timedelta | None) -> Awaitable[ToolResult]:
                handle = workflow.start_activity(
                    spec.activity or activities.RUN_TOOL,
                    make_input(),
                    task_queue=queue,
                    result_type=_result_type(spec),
                    schedule_to_start_timeout=patience,
                    start_to_close_timeout=timedelta(seconds=timeout) + MARGIN,
                    heartbeat_timeout=self._state.heartbeat_timeout,
                    retry_policy=OFFERED_RETRIES if offer else policy,
                    summary=call_summary(request),
                )
                return self._wait_within_grace(handle)

            return (
                on_tool_queue(self._state, spec.queue, begin) if spec.queue else begin(None, None)
            )

        try:
            return await self._offers.run(
                start, starts=activities.TOOL_STARTS if spec.idempotent else 1
            )
        except ActivityError as error:
            result = failed_result(request.name, error, timeout)
            if result.error_kind == NOT_STORED and self._state.is_held_for("server"):
                await self._state.hold(RunError(result.text, kind=NOT_STORED), "server")
            if result.outcome_unknown:
                log_lines.outcome_is_unknown(request, error)
            return result

    async def _wait_within_grace(self, handle: ActivityHandle[ToolResult]) -> ToolResult:
        """Return the tool's result. If the run is cancelled first, the tool is cancelled after
        `RunOptions.cancel_grace`.
        """
        grace, why = self._options.cancel_grace, "grace period of a running tool"
        if await wait_until_done(handle, self._state, grace=grace, why=why):
            return await handle
        await give_up(handle)
        return ToolResult.cancellation(outcome_unknown=True)


def may_be_repeated(result: ToolResult, spec: ToolSpec) -> bool:
    """Return whether the tool allows repeating an execution with this result.

    Never after a mistake of the model. A tool that is not idempotent is repeated only if its code
    or its kind has reported that it took no effect.
    """
    if result.status not in ("error", "timeout") or result.error_kind in NEVER_REPEATED:
        return False
    return spec.idempotent or (result.status == "error" and not result.outcome_unknown)


def _result_type(spec: ToolSpec) -> type[ToolResult]:
    return PreparedRun if isinstance(spec.execution, ChildRun) else ToolResult


def _start_local(spec: ToolSpec, input: activities.ToolInput) -> ActivityHandle[ToolResult]:
    return workflow.start_local_activity(
        spec.activity or activities.RUN_TOOL,
        input,
        result_type=_result_type(spec),
        start_to_close_timeout=timedelta(seconds=activities.LOCAL_SECONDS) + MARGIN,
        retry_policy=LOST_WORKER_RETRIES,
    )
