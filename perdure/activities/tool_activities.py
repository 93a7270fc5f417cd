"""Executes tools, by a type of activity for each name: so the Temporal UI and metrics tell tools apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from temporalio import activity
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from ..agent import Agent
from ..errors import ToolNotRegisteredError
from ..guardrails import GuardrailResult
from ..messages import ToolResult
from ..protocol import activities
from ..redaction import redactor
from ..tool_calls import ToolRequest
from ..tools.context import ToolContext
from ..tools.dispatch import ToolBox
from ..trace_ids import TraceIds
from .attempts import asked_from_anywhere, last_heartbeat
from .credentials import CredentialError, Credentials
from .failures import typed_failures
from .heartbeat import cancelled_meanwhile, heartbeats
from .offered import count_start, refusal, starts_so_far
from .results import recordable, result_limits, run_results
from .run_cache import KnownRun, RunCache, current_link
from .said_by_tools import Cancellation, Telling
from .stock import changed_tool, lacking_tool
from .suspects import FREE_STARTS, Suspects, count_suspect, starts_before
from .with_credentials import agent_for_tool


class ToolActivities:
    """Executes tools, with the tools and known runs of one worker. Raises as `RunActivities` does."""

    def __init__(self, toolbox: ToolBox, runs: RunCache, credentials: Credentials) -> None:
        self._toolbox = toolbox
        self._runs = runs
        self._credentials = credentials
        self._suspects = Suspects()

    @property
    def all(self) -> Sequence[Callable[..., Any]]:
        """The activities to register, beside `any_tool`."""
        return [self.run_tool, *(self._named(name) for name in self._toolbox.names)]

    @property
    def any_tool(self) -> Callable[..., Any]:
        """The activity for tools whose names only runs know, such as those of MCP servers.

        It gets every type that the worker has no activity of, and refuses those that are no tools as the SDK does.
        """

        @activity.defn(dynamic=True)
        async def run_any_tool(arguments: Sequence[RawValue]) -> ToolResult:
            name = activity.info().activity_type
            if not name.startswith(activities.TOOL_PREFIX) or len(arguments) != 1:
                text = f"Activity function {name} is not registered on this worker"
                raise ApplicationError(text, type="NotFoundError")
            input = activity.payload_converter().from_payload(arguments[0].payload, activities.ToolInput)
            return await self.run_tool(input)

        return run_any_tool

    def _named(self, name: str) -> Callable[..., Any]:
        """The activity for the tool of that name alone."""

        @activity.defn(name=f"{activities.TOOL_PREFIX}{name}")
        async def run_named_tool(input: activities.ToolInput) -> ToolResult:
            return await self.run_tool(input)

        return run_named_tool

    @activity.defn(name=activities.RUN_TOOL)
    async def run_tool(self, input: activities.ToolInput) -> ToolResult:
        """One execution of one tool. Whatever the tool does, raising included, is in the result."""
        with typed_failures():
            try:
                return await (self._run_local_tool(input) if activity.info().is_local else self._run_tool(input))
            except CredentialError as error:
                return ToolResult.failure(f"Error: Tool '{input.request.name}' failed: {error}", kind="credential")

    async def _run_tool(self, input: activities.ToolInput) -> ToolResult:
        async with heartbeats(activity.info().heartbeat_details) as heart:
            if await cancelled_meanwhile():
                return await self._abandoned(input)
            run = await self._runs.current()
            agent = await self._agent(run, input)
            starts, most = starts_before(input.offer), input.offer.starts if input.offer else activities.TOOL_STARTS
            if starts >= most:
                return activities.lost_tool(input.request.name)
            with self._suspects.alone(starts):
                counted = await self._count_start(input.offer, starts)
                if counted is not None:
                    heart.tell(counted, *last_heartbeat(is_counted=input.offer is not None))
                return await self._execute_heard(run, agent, input, starts + 1, Telling(heart, counted))

    async def _count_start(self, offer: activities.Offer | None, starts: int) -> object | None:
        if offer is not None:
            return await count_start()
        return await count_suspect() if starts >= FREE_STARTS else None

    async def check_approval(self, input: activities.JudgeInput) -> GuardrailResult:
        """Whether a person must approve a call, by the tool's own function; see `ToolBox.needs_approval`."""
        run, request = await self._runs.current(), input.request
        assert request is not None
        self._require_tool(run, request.name, input.offer)
        verdict = await self._toolbox.needs_approval(
            run.agent,
            request.name,
            request.arguments,
            run.inputs,
            _known(request, activity.info().attempt),
            timeout=activities.JUDGE_SECONDS,
        )
        return redactor().value(verdict)

    async def _run_local_tool(self, input: activities.ToolInput) -> ToolResult:
        run = await self._runs.current()
        agent = await self._agent(run, input)
        most = activities.LOCAL_SECONDS
        bounded = input.model_copy(update={"timeout": min(input.timeout, most)})
        result = await self._execute(run, agent, bounded, _context(run, input, activity.info().attempt))
        if result.status == "timeout" and input.timeout > most:
            why = f"; it is local, and a local tool has {most:g} seconds: remove `local` from its declaration"
            return ToolResult.failure(f"{result.text}{why}", kind="timeout", status="timeout", outcome_unknown=True)
        return result

    async def _abandoned(self, input: activities.ToolInput) -> ToolResult:
        """The result of a call whose earlier attempts were lost before the run was cancelled."""
        request, was_started = input.request, not input.offer or starts_so_far() > 0
        if was_started:
            run = await self._runs.current()
            context = _context(run, input, activity.info().attempt)
            agent = await self._agent(run, input)
            await self._toolbox.abandon(agent, request.name, request.arguments, run.inputs, context)
        return activities.ended_unseen(request.name, was_started=was_started)

    async def _agent(self, run: KnownRun, input: activities.ToolInput) -> Agent:
        """The run's agent with the secrets of the tool. Raises the ApplicationError that leaves it to other workers."""
        self._require_tool(run, input.request.name, input.offer)
        if not run.credential_ids:
            return run.agent
        return await agent_for_tool(self._credentials, run, input.request.name, input.offer)

    def _require_tool(self, run: KnownRun, name: str, offer: activities.Offer | None) -> None:
        try:
            handler = self._toolbox.resolve(name, run.agent)
        except ToolNotRegisteredError as error:
            raise refusal(lacking_tool(name, error, self._toolbox), offer) from None
        if change := self._toolbox.signature_change(handler, run.signatures.get(name)):
            raise refusal(changed_tool(name, change), offer)

    async def _execute_heard(
        self, run: KnownRun, agent: Agent, input: activities.ToolInput, attempt: int, telling: Telling
    ) -> ToolResult:
        cancellation = Cancellation()
        context = replace(
            _context(run, input, attempt),
            heartbeat=telling.heartbeat,
            report=telling.report,
            is_cancelled=cancellation.is_cancelled,
        )
        try:
            return await self._execute(run, agent, input, context)
        finally:
            cancellation.stop()

    async def _execute(
        self, run: KnownRun, agent: Agent, input: activities.ToolInput, context: ToolContext
    ) -> ToolResult:
        request = input.request
        most = result_limits(request)
        result = await self._toolbox.execute(
            agent, request.name, request.arguments, run.inputs, context, timeout=input.timeout, limits=most
        )
        return recordable(redactor().value(result), most)


def _context(run: KnownRun, input: activities.ToolInput, attempt: int) -> ToolContext:
    """What the tool may know, without what it has only while it is executed and heard."""
    request, info = input.request, activity.info()
    ids = TraceIds.of(info.namespace, current_link().workflow_id, run.first_run_id, run.caller)
    return replace(
        _known(request, input.earlier + attempt),
        retries_left=input.retries_left,
        conversation=request.context,
        traceparent=ids.called(request.iteration, request.index),
        last_heartbeat=last_heartbeat(is_counted=input.offer is not None),
        handed_on=asked_from_anywhere(),
        kept_results=run_results(),
        max_result=run.options.max_result,
    )


def _known(request: ToolRequest, attempt: int) -> ToolContext:
    """What is known of the call, whoever asks."""
    workflow_id, run_id = current_link()
    return ToolContext(
        run_id=workflow_id,
        iteration=request.iteration,
        call_id=request.call_id,
        idempotency_key=f"{run_id}/{request.iteration}/{request.index}",
        attempt=attempt,
    )


def has_dynamic(activities: Sequence[Callable[..., Any]]) -> bool:
    """Whether one of these is a dynamic activity; a worker can have only one."""
    return any(
        (definition := activity._Definition.from_callable(function)) is not None and definition.name is None
        for function in activities
    )
