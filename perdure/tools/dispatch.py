"""Executes tool calls, and turns every outcome into a tool result (§9.9, §11), for any caller."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from ..agents import Agent
from ..guardrails import GuardrailResult
from ..json_types import JsonView
from ..messages import ToolResult
from ..prompty.worker_limits import OPEN, WorkerLimits
from ..redaction import get_logger
from ..tool_calls import CHECK_FAILED, RecordedSignature
from ..tool_results import SHOWN_BYTES, SizeLimits
from ..unknown_outcomes import Reconciled
from .binding import apply_bindings
from .calls import BoundCall, call_of, kind_call
from .context import NO_CONTEXT, ToolContext
from .decorator import OWN, check_call, finding_of, verdict_of
from .handlers import GivenTools, Handler, Handlers
from .inventory import ToolInventory, take_inventory
from .kind import Asking, KindHandler, OutcomeUnknown, ToolKind
from .resources import Factory, Resources
from .results import describe, log_raised, log_timeout, to_result, with_advice
from .signature import InvalidArguments, is_async, signature_of
from .signature_change import signature_change
from .threads import Ended
from .user_loop import BlockedLoop, ThisLoop, UserLoop, blocked_loop_in, execution_context

_log = get_logger("perdure.tools")

T = TypeVar("T")
CLOSE_SECONDS = 5.0
"""Seconds in which kinds of tools must close what they have opened."""


def _call_with(opened: Any, call: Callable[[], Any]) -> Any:
    return call()


class NoToolAnswer(Exception):
    """A tool's own function has not answered; the text has the reason."""


class ToolBox:
    """Tools of a worker, which take precedence over the process-wide registries.

    Args:
        tools: A mapping from name to function; or functions, and modules with `@tool` functions.
        kinds: A mapping from a tool kind to its code, or to a handler for its tools.
        limits: Maximum size of a result.
        registered: Whether functions registered by `@tool` in this process are also tools here.
        loop: The loop for async tools and kinds; None runs them on the event loop of the caller of
            `execute`.
        resources: Resources shared by tools, by type.
        allowed: Limits for agents on the worker.

    Raises ConfigurationError for two tools with one name, for a function without a name, and for an
    invalid kind.
    """

    def __init__(
        self,
        tools: GivenTools = (),
        *,
        kinds: Mapping[str, ToolKind | KindHandler] | None = None,
        limits: SizeLimits | None = None,
        registered: bool = True,
        loop: UserLoop | None = None,
        resources: Mapping[type, Factory] | None = None,
        allowed: WorkerLimits = OPEN,
    ) -> None:
        self.allowed = allowed
        self._handlers = Handlers(tools, kinds, registered=registered, limits=allowed)
        self._limits = limits or SizeLimits()
        self._loop = loop or ThisLoop()
        self._resources = Resources(resources, self._loop)

    @property
    def names(self) -> list[str]:
        """Names of the functions given to this box, sorted."""
        return self._handlers.names

    @property
    def limited(self) -> dict[str, int]:
        """Names of the functions with a limit of concurrent calls, with that limit."""
        return self._handlers.limited

    def resolve(self, name: str, agent: Agent) -> Handler:
        """Return the handler of a function that the model calls. Raises as `Handlers.of_call`
        does.
        """
        return self._handlers.of_call(name, agent)

    def signature_change(self, handler: Handler, recorded: RecordedSignature | None) -> str | None:
        """Return why recorded calls of a run may not fit the handler's function; None if they do,
        or this is unknown.
        """
        if recorded is None or handler.function is None or not handler.is_by_name:
            return None
        shared = self._resources.parameters(handler.function)
        return signature_change(handler.tool.name, recorded, handler.function, without=shared)

    async def inventory(self, asking: Asking, *, may_ask: bool = True) -> ToolInventory:
        """Return how each declared tool is executed; see `take_inventory`, also for its errors."""
        return await take_inventory(
            self._handlers, asking, self._loop, self._resources, may_ask=may_ask
        )

    async def close(self) -> None:
        """Close the connections of kinds and tools; log those still open after `CLOSE_SECONDS`."""
        kinds, resources = self._handlers.kinds, self._resources
        for opened, close in (
            (kinds.open_kinds, kinds.close),
            (resources.open_ones, resources.close),
        ):
            if opened:
                await self._close_all(list(opened), close)

    async def _close_all(self, opened: Sequence[str], close: Callable[[], Any]) -> None:
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                closed = await self._loop.end_of(close, "closing of tools", is_async=True)
        except TimeoutError:
            _log.warning(
                "The resources of these tools did not close, and stay open: %s", ", ".join(opened)
            )
        else:
            closed.result()

    async def execute(
        self,
        agent: Agent,
        name: str,
        arguments: JsonView,
        inputs: JsonView,
        context: ToolContext | None = None,
        *,
        timeout: float | None = None,
        limits: SizeLimits | None = None,
    ) -> ToolResult:
        """Execute one call: bind and check its arguments, then run the handler for at most
        `timeout` seconds.

        None waits without a limit; `limits` are by default those of the box. The result contains
        any error of the tool. Raises ToolNotRegisteredError, and CancelledError when the caller is
        cancelled.
        """
        handler = self.resolve(name, agent)
        started = time.perf_counter()
        most = limits or self._limits
        result = await self._run(
            handler, agent, arguments, inputs, context or NO_CONTEXT, timeout, most
        )
        if result.duration_ms is None:
            result.duration_ms = round((time.perf_counter() - started) * 1000, 3)
        return result

    async def abandon(
        self, agent: Agent, name: str, arguments: JsonView, inputs: JsonView, context: ToolContext
    ) -> None:
        """End the work that a lost attempt has begun elsewhere, if the tool's kind can. Its errors
        are logged.

        Raises CancelledError when the caller is cancelled.
        """
        try:
            handler = self.resolve(name, agent)
            if handler.kind is None or type(handler.kind).abandon is ToolKind.abandon:
                return
            call = kind_call(handler, agent, arguments, inputs)(context)
            async with asyncio.timeout(CLOSE_SECONDS):
                ended = await self._loop.end_of(
                    partial(handler.kind.abandon, call),
                    f"end of tool {name} of run {context.run_id}",
                    is_async=True,
                )
            ended.result()
        except Exception as error:
            log_raised(name, error, context)

    async def needs_approval(
        self,
        agent: Agent,
        name: str,
        arguments: JsonView,
        inputs: JsonView,
        context: ToolContext | None = None,
        *,
        timeout: float | None = None,
    ) -> GuardrailResult:
        """Ask the tool's approval function whether a person must approve a call; if so, `ask` of
        the verdict has the reason.

        If the function raises, takes too long or is missing, a person is asked. Raises
        ToolNotRegisteredError as `execute` does.
        """
        handler = self.resolve(name, agent)
        bound = apply_bindings(handler.tool, arguments, inputs)
        try:
            return await self._ask_own_function(
                handler, "approval", [bound], verdict_of, context or NO_CONTEXT, timeout
            )
        except NoToolAnswer as error:
            return GuardrailResult(allowed=True, ask=CHECK_FAILED.format(error))

    async def reconcile(
        self,
        agent: Agent,
        name: str,
        arguments: JsonView,
        inputs: JsonView,
        context: ToolContext,
        *,
        timeout: float | None = None,
        limits: SizeLimits | None = None,
    ) -> Reconciled:
        """Ask the tool's reconcile function whether the call with the context's idempotency key has
        taken effect.

        If the function raises, takes too long or is missing, the outcome stays unknown. Raises
        ToolNotRegisteredError as `execute` does.
        """
        handler = self.resolve(name, agent)
        asked = [apply_bindings(handler.tool, arguments, inputs), context.idempotency_key]
        read = partial(finding_of, limits=limits or self._limits)
        try:
            return await self._ask_own_function(handler, "reconcile", asked, read, context, timeout)
        except NoToolAnswer as error:
            return Reconciled(doubt=str(error))

    async def _ask_own_function(
        self,
        handler: Handler,
        what: str,
        arguments: Sequence[Any],
        read: Callable[[Any], T],
        context: ToolContext,
        timeout: float | None,
    ) -> T:
        """Call the function that a tool names for `what`, "approval" or "reconcile", and return its
        value as `read` makes of it, within `timeout` seconds. Raises only NoToolAnswer.
        """
        check, name = getattr(handler.function, OWN.format(what), None), handler.tool.name
        if check is None:
            raise NoToolAnswer("this worker's tool has no function for it")
        deadline = asyncio.timeout(timeout)
        try:
            title = f"{what} check of tool {name}"
            async with deadline:
                types = self._resources.types if signature_of(check).context_name else ()
                opened = await self._resources.values(types, context.deps)
                with execution_context(context, tool=name, resources=opened) as given:
                    call = check_call(check, arguments, given)
                    in_loop = is_async(check)
                    ended = await self._loop.end_of(call, title, is_async=in_loop, finish=read)
            answer: T = ended.result()
            return answer
        except Exception as error:
            problem = (
                f"no answer within {timeout:g} s"
                if deadline.expired()
                else with_advice(describe(error))
            )
            raise NoToolAnswer(problem) from error

    async def _run(
        self,
        handler: Handler,
        agent: Agent,
        arguments: JsonView,
        inputs: JsonView,
        context: ToolContext,
        timeout: float | None,
        limits: SizeLimits,
    ) -> ToolResult:
        name, finish = handler.tool.name, partial(to_result, limits=limits)
        try:
            call = call_of(handler, agent, arguments, inputs, self._resources, limits)
            async with asyncio.timeout(timeout):
                ended = await self._end_of(call, name, context, finish)
        except InvalidArguments as error:
            return self._failure(
                f"Error: Invalid arguments for tool '{name}': {error}", "invalid_arguments"
            )
        except TimeoutError as error:
            log_timeout(name, timeout or 0, context)
            unheard = blocked_loop_in(error.__cause__)
            why = f": {unheard.text}" if unheard else ""
            text = f"Error: Tool '{name}' failed: timed out after {timeout:g} seconds{why}"
            has_begun = unheard is None or unheard.has_begun
            return ToolResult.failure(
                text, kind="timeout", status="timeout", outcome_unknown=has_begun
            )
        except Exception as error:
            ended = Ended(raised=error)
        return (
            ended.value
            if ended.raised is None
            else self._result_of_error(name, ended.raised, context)
        )

    async def _end_of(
        self, call: BoundCall, name: str, context: ToolContext, finish: Callable[[Any], ToolResult]
    ) -> Ended:
        """Return how the call ends: with a ToolResult, or with the tool's exception."""
        title = f"tool {name} of run {context.run_id}" if context.run_id else f"tool {name}"
        try:
            opened = await self._resources.values(call.needs, context.deps) if call.needs else None
        except asyncio.CancelledError:
            text = "it never started: a resource that it needs was not open yet"
            raise asyncio.CancelledError(
                BlockedLoop(text, is_blocker=False, has_begun=False)
            ) from None
        with execution_context(context, tool=name, resources=opened or context.resources) as given:
            # Code that outlives its time still uses what was opened for it.
            bound = partial(_call_with, opened, call.with_context(given))
            return await self._loop.end_of(bound, title, is_async=call.is_async, finish=finish)

    def _result_of_error(self, name: str, error: BaseException, context: ToolContext) -> ToolResult:
        log_raised(name, error, context)
        text = f"Error: Tool '{name}' failed: {with_advice(describe(error))}"
        return self._failure(
            text, type(error).__name__, outcome_unknown=isinstance(error, OutcomeUnknown)
        )

    def _failure(self, text: str, kind: str, *, outcome_unknown: bool = False) -> ToolResult:
        limits = self._limits._replace(text_bytes=min(self._limits.text_bytes, SHOWN_BYTES))
        return to_result(
            ToolResult.failure(text, kind=kind, outcome_unknown=outcome_unknown), limits
        )
