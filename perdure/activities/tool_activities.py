"""Executes tools, with one activity type per name, and passes on their progress and questions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from temporalio import activity
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from ..agents import Agent
from ..errors import ToolNotRegisteredError
from ..guardrails import GuardrailResult
from ..history.results import read_result
from ..messages import TextPart, ToolResult
from ..payloads.failures import MAX_PAYLOAD_BYTES, size_of
from ..protocol import activities
from ..redaction import get_logger, redactor
from ..tool_calls import ToolProgress, ToolRequest
from ..tool_results import SHOWN_BYTES, STORED, KeptResults, SizeLimits
from ..tools.context import ToolContext, context_with
from ..tools.dispatch import ToolBox
from ..tools.results import to_result
from ..trace_ids import TraceIds, idempotency_key
from ..unknown_outcomes import Reconciled
from .call_secrets import call_secret
from .credentials import CredentialError, Credentials
from .failures import (
    PoisonCalls,
    PreviousAttempt,
    asked_from_anywhere,
    cancelled_while_late,
    inspect_previous_attempt,
    known_starts,
    last_heartbeat,
    record_starts,
    refusal,
    typed_failures,
)
from .heartbeat import Heartbeat, Readers, heartbeats
from .inventory import changed_tool, lacking_tool
from .model import agent_for_tool
from .run_cache import KnownRun, LinkKey, RunCache, current_link, link_of

UNAUTHORIZED = "http_401"
"""The kind of a result if the tool's server refused the token: nothing was executed."""
MOST_PER_CHARACTER = 6
"""Bytes of JSON for one character, as a control character needs."""


def result_limits(request: ToolRequest) -> SizeLimits:
    """Return the size limits of the current activity's result: as much as can be kept.

    A history does not link a local activity's result to its call, so a local one keeps only the
    model's view.
    """
    limits = (STORED if _is_stored() else SizeLimits()).for_one_of(request.calls)
    return (
        limits._replace(text_bytes=min(limits.text_bytes, SHOWN_BYTES))
        if activity.info().is_local
        else limits
    )


def recordable(result: ToolResult, limits: SizeLimits) -> ToolResult:
    """Return the result, small enough for one payload even uncompressed.

    Text may take several times its bytes as JSON: then less of it is kept.
    """
    if _length(result) * MOST_PER_CHARACTER <= MAX_PAYLOAD_BYTES or _is_stored():
        return result
    while size_of(result) > MAX_PAYLOAD_BYTES and limits.text_bytes > SHOWN_BYTES:
        limits = limits._replace(text_bytes=max(limits.text_bytes // 2, SHOWN_BYTES))
        result = to_result(result, limits)
    return result


def run_results(link: LinkKey) -> KeptResults:
    """Return a function that finds the results of this link of a run, in an activity; awaitable on
    any event loop.
    """
    client, loop = activity.client(), asyncio.get_running_loop()

    async def find(call_id: str, iteration: int | None, ignored: Sequence[str] = ()) -> ToolResult:
        found = read_result(
            client,
            *link,
            call_id,
            iteration=iteration,
            to_result=partial(to_result, limits=STORED),
            ignored=ignored,
        )
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(found, loop))

    return find


def _is_stored() -> bool:
    return activity.client().data_converter.external_storage is not None


def _length(result: ToolResult) -> int:
    return sum(
        len(part.value if isinstance(part, TextPart) else part.source) for part in result.parts
    )


_log = get_logger("perdure.runs")


class ToolHeartbeat:
    """The details of an activity's heartbeats: the count of its starts, the tool's own details, and
    its progress.

    `starts`, the count, is None if nothing counts them.
    """

    def __init__(self, heart: Heartbeat, starts: object | None) -> None:
        self._heart = heart
        self._starts = () if starts is None else (starts,)
        self._details = last_heartbeat()
        self._progress: tuple[ToolProgress, ...] = ()
        heart.on_own_beat = self.heartbeat

    def heartbeat(self, *details: object) -> None:
        """Store the tool's details for another attempt."""
        self._details = details
        self._heart.keep(*self._all)

    def report(self, progress: ToolProgress) -> None:
        """Send readers the tool's progress, which follows its details."""
        self._progress = (progress,)
        self._heart.tell(*self._all)

    @property
    def _all(self) -> tuple[object, ...]:
        return (*self._starts, *self._details, *self._progress)


ASK_SECONDS = 1.0
"""Seconds between two requests for the run's cancellation."""


class Cancellation:
    """Detects the cancellation of this activity's run.

    Temporal cancels the activity itself later, after `RunOptions.cancel_grace`. So the server is
    asked each second, from the tool's first question on.
    """

    def __init__(self) -> None:
        self._context = activity._Context.current()
        self._loop = asyncio.get_running_loop()
        self._is_asked = self._is_known = self._has_ended = False
        self._asking: asyncio.Task[None] | None = None

    def is_cancelled(self) -> bool:
        """Return whether a cancellation is known now. Callable from any thread."""
        if not self._is_asked:
            self._is_asked = True
            self._loop.call_soon_threadsafe(self._start_asking)
        return self._is_known or self._context.cancelled_event.is_set()

    def stop(self) -> None:
        """Stop asking the server."""
        self._has_ended = True
        if self._asking is not None:
            self._asking.cancel()

    def _start_asking(self) -> None:
        if not self._has_ended:
            self._asking = self._loop.create_task(self._ask())

    async def _ask(self) -> None:
        info, client = self._context.info(), self._context.client
        assert info.workflow_id is not None
        assert client is not None
        handle = client.get_workflow_handle(info.workflow_id, run_id=info.workflow_run_id)
        while not self._is_known:
            try:
                description = await handle.describe()
            except RPCError as error:
                _log.debug("can't find out whether the run is cancelled: %s", error)
            else:
                self._is_known = description.raw_description.workflow_extended_info.cancel_requested
            await asyncio.sleep(ASK_SECONDS)


class ToolActivities:
    """Executes tools, with the tools and cached runs of one worker. Raises as `RunActivities`
    does.
    """

    def __init__(
        self, toolbox: ToolBox, runs: RunCache, credentials: Credentials, readers: Readers
    ) -> None:
        self._toolbox = toolbox
        self._runs = runs
        self._credentials = credentials
        self._readers = readers
        self._poison_calls = PoisonCalls()

    @property
    def all(self) -> Sequence[Callable[..., Any]]:
        """Activities to register, in addition to `any_tool`."""
        return [self.run_tool, self.reconcile, *map(self.activity_named, self._toolbox.names)]

    @property
    def any_tool(self) -> Callable[..., Any]:
        """Activity for tools whose names only runs know, such as those of MCP servers.

        It gets every activity type that the worker does not register, and refuses types that are
        not tools as the SDK does.
        """

        @activity.defn(dynamic=True)
        async def run_any_tool(arguments: Sequence[RawValue]) -> ToolResult:
            name = activity.info().activity_type
            if not name.startswith(activities.TOOL_PREFIX) or len(arguments) != 1:
                text = f"Activity function {name} is not registered on this worker"
                raise ApplicationError(text, type="NotFoundError")
            input = activity.payload_converter().from_payload(
                arguments[0].payload, activities.ToolInput
            )
            return await self.run_tool(input)

        return run_any_tool

    def activity_named(self, name: str) -> Callable[..., Any]:
        """Return the activity for one tool."""

        @activity.defn(name=f"{activities.TOOL_PREFIX}{name}")
        async def run_named_tool(input: activities.ToolInput) -> ToolResult:
            return await self.run_tool(input)

        return run_named_tool

    @activity.defn(name=activities.RUN_TOOL)
    async def run_tool(self, input: activities.ToolInput) -> ToolResult:
        """Execute one tool once. The result contains whatever the tool does, errors included."""
        with typed_failures():
            try:
                info = activity.info()
                return await (
                    self._run_local_tool(input) if info.is_local else self._run_tool(input, info)
                )
            except CredentialError as error:
                return ToolResult.failure(
                    f"Error: Tool '{input.request.name}' failed: {error}", kind="credential"
                )

    async def _run_tool(self, input: activities.ToolInput, info: activity.Info) -> ToolResult:
        async with heartbeats(info.heartbeat_details, self._readers) as heart:
            before = await inspect_previous_attempt() if info.attempt > 1 else PreviousAttempt()
            if before.is_cancelled:
                return await self._abandon(input)
            run = await self._runs.current()
            heart.stream_seconds = run.stream_seconds
            agent = await self._agent(run, input)
            starts = known_starts(input.offer)
            if before.was_killed:
                starts = starts.with_loss(info.attempt - 1)
            if starts.are_used_up(input.offer.starts if input.offer else activities.TOOL_STARTS):
                _log.error(
                    "The tool %r of run %s was lost with %d workers, which it may have ended: it "
                    "is not started again",
                    *(input.request.name, info.workflow_id, starts.lost),
                    extra={"run": info.workflow_id},
                )
                return activities.lost_tool(input.request.name)
            async with self._poison_calls.alone(starts):
                if await cancelled_while_late():
                    return await self._abandon(input)
                starts = replace(starts, starts=starts.starts + 1, attempt=info.attempt)
                counted = await record_starts(starts) if input.offer or starts.starts > 1 else None
                if counted is not None:
                    heart.begin_with(counted, *last_heartbeat())
                return await self._execute_heard(
                    run, agent, input, starts.starts, ToolHeartbeat(heart, counted)
                )

    async def check_approval(self, input: activities.JudgeInput) -> GuardrailResult:
        """Return whether a person must approve a call, by the tool's own function; see
        `ToolBox.needs_approval`.
        """
        run, request = await self._runs.current(), input.request
        assert request is not None
        self._require_tool(run, request.name, input.offer)
        call = (request.name, request.arguments, run.inputs, call_context(run, request))
        verdict = await self._toolbox.needs_approval(
            run.agent, *call, timeout=activities.JUDGE_SECONDS
        )
        return redactor().value(verdict)

    @activity.defn(name=activities.RECONCILE)
    async def reconcile(self, input: activities.ReconcileInput) -> Reconciled:
        """Return the finding of the tool's own function about an earlier call; see
        `ToolBox.reconcile`.
        """
        with typed_failures():
            async with heartbeats():
                run, request, most = (
                    await self._runs.current(),
                    input.request,
                    result_limits(input.request),
                )
                self._require_tool(run, request.name, input.offer)
                context = call_context(run, request, key=input.idempotency_key)
                found = await self._toolbox.reconcile(
                    run.agent,
                    request.name,
                    request.arguments,
                    run.inputs,
                    context,
                    timeout=input.timeout,
                    limits=most._replace(text_bytes=min(most.text_bytes, SHOWN_BYTES)),
                )
                return redactor().value(found)

    async def _run_local_tool(self, input: activities.ToolInput) -> ToolResult:
        run = await self._runs.current()
        agent = await self._agent(run, input)
        most = activities.LOCAL_SECONDS
        bounded = input.model_copy(update={"timeout": min(input.timeout, most)})
        result = await self._execute(
            run, agent, bounded, _context(run, input, activity.info().attempt)
        )
        if result.status == "timeout" and input.timeout > most:
            why = (
                f"; it is local, and a local tool has {most:g} seconds: remove `local` from its "
                "declaration"
            )
            return result.model_copy(update={"parts": [TextPart(value=f"{result.text}{why}")]})
        return result

    async def _abandon(self, input: activities.ToolInput) -> ToolResult:
        """Return the result of a call whose earlier attempts were lost before the run was
        cancelled.
        """
        request, was_started = (
            input.request,
            not input.offer or known_starts(input.offer).starts > 0,
        )
        if was_started:
            run = await self._runs.current()
            context = _context(run, input, activity.info().attempt)
            agent = await self._agent(run, input)
            await self._toolbox.abandon(agent, request.name, request.arguments, run.inputs, context)
        return activities.ended_unseen(request.name, was_started=was_started)

    async def _agent(self, run: KnownRun, input: activities.ToolInput) -> Agent:
        """Return the run's agent with the tool's secrets. Raises the ApplicationError that leaves
        the call to other workers.
        """
        self._require_tool(run, input.request.name, input.offer)
        if not run.credential_ids:
            return run.agent
        return await agent_for_tool(self._credentials, run, input.request.name, input.offer)

    def _require_tool(self, run: KnownRun, name: str, offer: activities.Offer | None) -> None:
        try:
            handler = self._toolbox.resolve(name, run.agent)
        except ToolNotRegisteredError as error:
            raise refusal(lacking_tool(name, error, self._toolbox), offer) from None
        if handler.function is None or run.fitting.get(name) is handler.function:
            return
        if change := self._toolbox.signature_change(handler, run.signatures.get(name)):
            raise refusal(changed_tool(name, change), offer)
        run.fitting[name] = handler.function

    async def _execute_heard(
        self,
        run: KnownRun,
        agent: Agent,
        input: activities.ToolInput,
        attempt: int,
        tool_heartbeat: ToolHeartbeat,
    ) -> ToolResult:
        cancellation = Cancellation()
        context = _context(
            run,
            input,
            attempt,
            heartbeat=tool_heartbeat.heartbeat,
            report=tool_heartbeat.report,
            is_cancelled=cancellation.is_cancelled,
        )
        try:
            return await self._execute(run, agent, input, context)
        finally:
            cancellation.stop()

    async def _execute(
        self, run: KnownRun, agent: Agent, input: activities.ToolInput, context: ToolContext
    ) -> ToolResult:
        request, most = input.request, result_limits(input.request)
        execute = partial(self._toolbox.execute, limits=most)
        call = (request.name, request.arguments, run.inputs, context)
        result = await execute(agent, *call, timeout=input.timeout)
        if (
            result.error_kind == UNAUTHORIZED
            and self._credentials.forget(run, agent)
            and (renewed := await self._agent(run, input)) is not agent
        ):
            left = input.timeout - (result.duration_ms or 0) / 1000
            result = await execute(renewed, *call, timeout=max(left, 0))
        return recordable(redactor().value(result), most)


def _context(run: KnownRun, input: activities.ToolInput, attempt: int, **heard: Any) -> ToolContext:
    """Return the tool's context; `heard` contains the parts that exist only during its
    execution.
    """
    request, info = input.request, activity.info()
    link = link_of(info)
    ids = TraceIds.of(info.namespace, link.workflow_id, run.first_run_id, run.caller)
    return call_context(
        run,
        request,
        input.earlier + attempt,
        retries_left=input.retries_left,
        conversation=request.context,
        answered=request.answered,
        traceparent=ids.child_traceparent(request.iteration, request.index),
        last_heartbeat=last_heartbeat(),
        superseded=asked_from_anywhere(),
        kept_results=run_results(link),
        max_result=run.options.max_result,
        secret=partial(call_secret, *link, request.iteration, request.index, input.earlier),
        **heard,
    )


def call_context(
    run: KnownRun, request: ToolRequest, attempt: int | None = None, key: str = "", **more: Any
) -> ToolContext:
    """Return the context of a call for any caller; `more` is passed through, `key` is another
    call's.
    """
    link = current_link()
    return context_with(
        idempotency_key=key or idempotency_key(link.run_id, request.iteration, request.index),
        run_id=link.workflow_id,
        iteration=request.iteration,
        call_id=request.call_id,
        attempt=activity.info().attempt if attempt is None else attempt,
        deps=run.open_deps,
        may_repeat=request.may_repeat,
        **more,
    )
