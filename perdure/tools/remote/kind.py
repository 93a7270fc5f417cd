"""Kinds of tool `a2a` and `delegate`: each offers one function for a remote agent."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from ...declared_tools import Tool
from ...json_types import JsonObject
from ...messages import DELEGATED, ToolResult
from ...settings.child_agents import TASK
from ...text import count_of
from ..http import Http, HttpFailure
from ..kind import (
    Asking,
    KindCall,
    Offering,
    OutcomeUnknown,
    ToolKind,
    ToolOfferError,
    ToolUnavailable,
)
from .card import Card, read_card
from .chat import USER, answer_of
from .settings import (
    DEFAULT_TIMEOUT,
    DelegateOptions,
    RemoteSettings,
    remote_problems,
    remote_settings,
)

MARGIN = 5.0
"""Seconds after a task's time-out for the remaining work."""
_MESSAGE: JsonObject = {
    "type": "object",
    "properties": {
        "message": {
            "type": "string",
            "description": "The message to the agent, with everything that it needs to know.",
        },
        "context_id": {
            "type": "string",
            "maxLength": 256,
            "description": "Only to answer the agent's question: the context_id that it gave.",
        },
        "task_id": {
            "type": "string",
            "maxLength": 256,
            "pattern": "^[^/?#]*$",
            "description": "Only to answer the agent's question: the task_id that it gave.",
        },
    },
    "required": ["message"],
    "additionalProperties": False,
}
_TASK: JsonObject = {
    "type": "object",
    "properties": {TASK: {"type": "string", "description": "The whole task of the agent"}},
    "required": [TASK],
}


class A2AKind(ToolKind):
    """Agents that speak A2A 1.0, by JSON-RPC or by HTTP and JSON."""

    asks_others: ClassVar[bool] = True

    def __init__(self) -> None:
        # Not later, in the thread of tools: the OpenAI SDK uses this module as soon as
        # `sys.modules` has it, even before another thread has finished importing it.
        if importlib.util.find_spec("httpx") is not None:
            importlib.import_module("httpx")
        self._http = Http()

    def problems(self, tool: Tool) -> Sequence[str]:
        """As `ToolKind.problems`."""
        return remote_problems(tool)

    async def offer(self, tool: Tool, asking: Asking) -> Sequence[Offering]:
        """Return one function with the tool's name, described by the agent's card. Raises
        ToolOfferError.
        """
        require_client()
        from .a2a_card import callable_part, parsed_card

        settings = remote_settings(tool)
        try:
            card = await read_card(self._http, settings)
        except ToolUnavailable as error:
            raise ToolOfferError(str(error)) from error
        if card.form != "a2a":
            raise ToolOfferError(
                f"the card of the agent at {settings.address} is one of KAOS, whose protocol is "
                f"another: name the agent in metadata.perdure.agents ({{name, url}}) instead"
            )
        return [
            Offering(
                name=tool.name,
                description=card.description(settings, tool.description),
                parameters=_MESSAGE,
                details=callable_part(parsed_card(card.document), settings),
                timeout=(tool.perdure.timeout if tool.perdure else None) or DEFAULT_TIMEOUT,
            )
        ]

    async def execute(self, call: KindCall) -> ToolResult:
        """Send the message, and follow the task until it rests.

        Raises AgentError if the agent can't be called or followed, and ToolOfferError without the
        client's package.
        """
        require_client()
        from .a2a import remote_call

        async with remote_call(call) as remote:
            return await remote.result()

    async def abandon(self, call: KindCall) -> None:
        """Cancel the remote task that a lost attempt has begun. Raises as `execute` does."""
        require_client()
        from .a2a import remote_call

        async with remote_call(call) as remote:
            await remote.cancel()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()


class DelegateKind(A2AKind):
    """Agents that accept a task, by A2A, or by Chat Completions as KAOS agents do."""

    async def offer(self, tool: Tool, asking: Asking) -> Sequence[Offering]:
        """Return one function, described by the file, or by the agent's card.

        Raises ToolUnavailable if the card is needed and unavailable, and ToolOfferError without
        A2A's package.
        """
        settings, options = _delegation(tool)
        if options.protocol == "openai":
            description = tool.description or f"Hands a task to the agent {settings.agent}."
            return [_offering_of(tool, options, description, {"role": DELEGATED})]
        card = await read_card(self._http, settings)
        description = card.description(settings, tool.description)
        if card.form == "a2a" or options.protocol == "a2a":
            return [
                _offering_of(tool, options, description, {"a2a": _part_for_a2a(card, settings)})
            ]
        return [
            _offering_of(
                tool, options, description, {"role": DELEGATED if card.form == "kaos" else USER}
            )
        ]

    async def execute(self, call: KindCall) -> ToolResult:
        """Hand over the task, and return the agent's answer, or the reason for its absence. Never
        raises for the agent's behaviour.
        """
        settings, options = _delegation(call.tool)
        if not str(call.arguments[TASK]).strip():
            text = settings.failure_text(f"missing {TASK!r}: describe the agent's task")
            return ToolResult.failure(text, kind="invalid_arguments")
        try:
            async with asyncio.timeout(options.timeout):
                return await (
                    self._ask_by_a2a(call)
                    if "a2a" in call.details
                    else self._ask_by_chat(call, settings)
                )
        except TimeoutError:
            text = settings.failure_text(f"no answer within {count_of(options.timeout, 'second')}")
            return ToolResult.failure(text, kind="timeout", status="timeout", outcome_unknown=True)
        except HttpFailure as error:
            text = settings.failure_text(str(error))
            return ToolResult.failure(text, kind=error.kind, outcome_unknown=error.outcome_unknown)

    async def _ask_by_a2a(self, call: KindCall) -> ToolResult:
        require_client("agents that speak A2A")
        from .a2a_http import AgentError

        try:
            return await super().execute(_a2a_call(call))
        except AgentError as error:
            unknown = isinstance(error, OutcomeUnknown)
            raise HttpFailure(str(error), kind="agent_failed", outcome_unknown=unknown) from error

    async def _ask_by_chat(self, call: KindCall, settings: RemoteSettings) -> ToolResult:
        task, before = str(call.arguments[TASK]), call.context.conversation
        role, traceparent = call.details["role"], call.context.traceparent
        answer = await answer_of(
            self._http, settings, task, before, role=role, traceparent=traceparent
        )
        return ToolResult.of_text(answer)

    async def abandon(self, call: KindCall) -> None:
        """Cancel the remote task that a lost attempt has begun, if there are tasks. Raises as A2A's
        client does.
        """
        if "a2a" in call.details:
            await super().abandon(_a2a_call(call))


def _delegation(tool: Tool) -> tuple[RemoteSettings, DelegateOptions]:
    settings = remote_settings(tool)
    assert settings.delegation is not None
    return settings, settings.delegation


def _offering_of(
    tool: Tool, options: DelegateOptions, description: str, details: JsonObject
) -> Offering:
    by_a2a = "a2a" in details
    return Offering(
        name=tool.name,
        description=description,
        parameters=_TASK,
        details=details,
        timeout=options.timeout + MARGIN,
        idempotent=by_a2a,
        takes_context=not by_a2a,
    )


def _part_for_a2a(card: Card, settings: RemoteSettings) -> JsonObject:
    """Return the parts of a card that a call by A2A needs. Raises ToolUnavailable for a card
    without a callable address.
    """
    require_client("agents that speak A2A")
    from .a2a_card import callable_part, parsed_card

    try:
        return callable_part(parsed_card(card.document), settings)
    except ToolOfferError as error:
        raise ToolUnavailable(str(error)) from error


def _a2a_call(call: KindCall) -> KindCall:
    arguments: JsonObject = {"message": str(call.arguments[TASK])}
    return replace(call, details=call.details["a2a"], arguments=arguments)


def require_client(what: str = "tools of kind a2a") -> None:
    """Raises ToolOfferError without the official client."""
    if importlib.util.find_spec("a2a") is None:
        raise ToolOfferError(
            f"{what} need a package that is not installed: pip install 'perdure[a2a]'"
        )
