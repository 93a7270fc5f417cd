"""Finds a tool's handler and executes it, so that whatever happens becomes a tool result (§9.9, §11)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

from ..agent import Agent, Tool
from ..errors import ToolNotRegisteredError
from ..messages import ToolResult
from ..tool_calls import ToolSpec
from .binding import apply_bindings
from .collect import collect_tools
from .context import ToolContext
from .declaration import completed, contradiction
from .failed import describe, log_raised, log_timeout
from .registry import KindHandler, get_tool, get_tool_handler
from .results import SizeLimits, to_result
from .signature import InvalidArguments, signature_of
from .threads import Ended
from .user_loop import ThisLoop, UserLoop, why_unheard, with_advice
from .validation import find_problems, without_absent


class ToolInventory(NamedTuple):
    """What a worker knows about the tools that an agent declares."""

    tools: list[ToolSpec]
    missing: dict[str, str]
    """Name → kind, for each declared tool without a handler."""
    completed: Sequence[Tool] = ()
    """The declarations that leave something to their functions, with what those say."""
    contradictions: Sequence[str] = ()
    """What is wrong with declarations that contradict their functions."""


class Handler(NamedTuple):
    """The code behind one declared tool."""

    tool: Tool
    function: Callable[..., Any]
    is_for_kind: bool
    """`function` executes every tool of that kind: it is called with `(tool, arguments, agent, inputs)`."""


class ToolBox:
    """The tools of a worker, which come before those of the process-wide registries.

    Args:
        tools: A mapping from name to function; or functions, and modules with `@tool` functions.
        kinds: A mapping from a tool kind to the handler for its tools.
        limits: How large a result may be.
        loop: Where async tools run; None runs them on the event loop of whoever calls `execute`.

    Raises ConfigurationError for two tools of one name, and for a function without a name.
    """

    def __init__(
        self,
        tools: Mapping[str, Callable[..., Any]] | Sequence[Callable[..., Any] | ModuleType] = (),
        *,
        kinds: Mapping[str, KindHandler] | None = None,
        limits: SizeLimits | None = None,
        loop: UserLoop | None = None,
    ) -> None:
        self._tools = dict(tools) if isinstance(tools, Mapping) else collect_tools(tools)
        self._kinds = dict(kinds or {})
        self._limits = limits or SizeLimits()
        self._loop = loop or ThisLoop()

    @property
    def names(self) -> list[str]:
        """The names of the functions that were given to this box, sorted."""
        return sorted(self._tools)

    def resolve(self, name: str, agent: Agent) -> Handler:
        """The handler of a declared tool, by name, else by kind.

        Raises ToolNotRegisteredError when there is none, and for a tool that the agent does not declare: its model
        can't call that one, whether it has a function or not.
        """
        tool = agent.tool(name)
        if tool is None:
            raise ToolNotRegisteredError(f"Tool not registered: {name}")
        if function := self._tools.get(name) or get_tool(name):
            return Handler(tool, function, is_for_kind=False)
        if handler := self._kinds.get(tool.kind) or get_tool_handler(tool.kind):
            return Handler(tool, handler, is_for_kind=True)
        raise ToolNotRegisteredError(f"No handler registered for tool: {name} (kind: {tool.kind})")

    def inventory(self, agent: Agent) -> ToolInventory:
        """How each declared tool is to be run, and which have no handler. Never raises."""
        handlers: list[Handler] = []
        missing: dict[str, str] = {}
        for tool in agent.tools or []:
            try:
                handlers.append(self.resolve(tool.name, agent))
            except ToolNotRegisteredError:
                missing[tool.name] = tool.kind
        functions = [(handler.tool, handler.function) for handler in handlers if not handler.is_for_kind]
        return ToolInventory(
            tools=[_spec(handler) for handler in handlers],
            missing=missing,
            completed=[full for tool, function in functions if (full := completed(tool, function)) is not tool],
            contradictions=[text for tool, function in functions if (text := contradiction(tool, function))],
        )

    async def execute(
        self,
        agent: Agent,
        name: str,
        arguments: Mapping[str, Any],
        inputs: Mapping[str, Any],
        context: ToolContext | None = None,
        *,
        timeout: float | None = None,
    ) -> ToolResult:
        """Execute one call: bind and check its arguments, then run the handler for at most `timeout` seconds.

        None waits for ever. Whatever goes wrong in the tool is in the result. Raises ToolNotRegisteredError, and
        CancelledError when the caller is cancelled.
        """
        handler = self.resolve(name, agent)
        started = time.perf_counter()
        result = await self._run(handler, agent, arguments, inputs, context or ToolContext(), timeout)
        if result.duration_ms is None:
            result.duration_ms = round((time.perf_counter() - started) * 1000, 3)
        return result

    async def _run(
        self,
        handler: Handler,
        agent: Agent,
        arguments: Mapping[str, Any],
        inputs: Mapping[str, Any],
        context: ToolContext,
        timeout: float | None,
    ) -> ToolResult:
        name = handler.tool.name
        try:
            call = _fill_in(handler, agent, arguments, inputs)
            async with asyncio.timeout(timeout):
                ended = await self._end_of(call, handler.function, name, context)
        except InvalidArguments as error:
            return self._failure(f"Error: Invalid arguments for tool '{name}': {error}", "invalid_arguments")
        except TimeoutError as error:
            log_timeout(name, timeout or 0, context)
            why = why_unheard(error.__cause__)
            text = f"Error: Tool '{name}' failed: timed out after {timeout:g} seconds{why and f': {why}'}"
            return ToolResult.failure(text, kind="timeout", status="timeout")
        except Exception as error:
            ended = Ended(raised=error)
        return ended.value if ended.raised is None else self._raised(name, ended.raised, context)

    async def _end_of(
        self, call: Callable[..., Any], function: Callable[..., Any], name: str, context: ToolContext
    ) -> Ended:
        """How the call ends: with a ToolResult, or with what the tool raised."""
        signature = signature_of(function)
        if signature.context_name:
            call = partial(call, **{signature.context_name: _for_threads(context)})
        title = f"tool {name} of run {context.run_id}" if context.run_id else f"tool {name}"
        finish = partial(to_result, limits=self._limits)
        return await self._loop.end_of(call, title, is_async=signature.is_async, finish=finish)

    def _raised(self, name: str, error: BaseException, context: ToolContext) -> ToolResult:
        log_raised(name, error, context)
        text = f"Error: Tool '{name}' failed: {with_advice(describe(error))}"
        return self._failure(text, type(error).__name__)

    def _failure(self, text: str, kind: str) -> ToolResult:
        return to_result(ToolResult.failure(text, kind=kind), self._limits)


def _spec(handler: Handler) -> ToolSpec:
    declared = None if handler.is_for_kind else getattr(handler.function, "__tool_spec__", None)
    return (declared or ToolSpec(name=handler.tool.name)).model_copy(update={"name": handler.tool.name})


def _fill_in(
    handler: Handler, agent: Agent, arguments: Mapping[str, Any], inputs: Mapping[str, Any]
) -> Callable[..., Any]:
    """The handler's function with all its arguments except the context.

    Only what the model wrote is checked: it does not know the parameters that are bound to inputs. Raises
    InvalidArguments for what it wrote, and UnfitInputError for a bound parameter that the function can't do without.
    """
    declared, hidden = getattr(handler.tool, "parameters", None), handler.tool.bindings or {}
    given = {name: value for name, value in arguments.items() if name not in hidden}
    if declared is not None:
        visible = [prop for prop in declared if prop.name not in hidden]
        given = without_absent(visible, given)
        if problems := find_problems(visible, given):
            raise InvalidArguments(problems)
    unseen = {name: value for name, value in arguments.items() if name in hidden}
    bound = apply_bindings(handler.tool, {**given, **unseen}, inputs)
    if declared is not None:
        bound = without_absent(declared, bound)
    if handler.is_for_kind:
        return partial(handler.function, handler.tool, bound, agent, dict(inputs))
    return partial(handler.function, **signature_of(handler.function).fit(bound, hidden=hidden.keys()))


def _for_threads(context: ToolContext) -> ToolContext:
    """The context with a heartbeat that may be called from other threads than the event loop's."""
    loop = asyncio.get_running_loop()

    def beat(*details: object) -> None:
        loop.call_soon_threadsafe(context.heartbeat, *details)

    return replace(context, heartbeat=beat)
