"""The kind of tool `delegate`: offers one function for a remote agent, which takes a task and gives its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from ...declared_tools import Tool
from ...messages import DELEGATED, JsonObject, TextPart, ToolResult
from ...settings.child_agents import DELEGATION_FAILED, TASK
from ..kind import Asking, KindCall, Offering, OutcomeUnknown, ToolKind, ToolOfferError, ToolUnavailable
from ..openapi.http import Http, HttpFailure
from .a2a_kind import A2AKind, require_client
from .card import Card, CardError, read_card
from .chat import USER, DelegationError, answer_of
from .settings import Settings, as_a2a, problems_of, settings_of

MARGIN = 5.0
"""Seconds after the time-out of a task, for what is to be done then."""
_PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {TASK: {"type": "string", "description": "What the agent is to do, in full"}},
    "required": [TASK],
}


class DelegateKind(ToolKind):
    """Agents that speak A2A, or Chat Completions as those of KAOS do."""

    asks_others: ClassVar[bool] = True

    def __init__(self) -> None:
        self._a2a = A2AKind()
        self._http = Http()

    def problems(self, tool: Tool) -> Sequence[str]:
        """As `ToolKind.problems`."""
        return problems_of(tool)

    async def offer(self, tool: Tool, asking: Asking) -> Sequence[Offering]:
        """One function, described by the file, or by the agent's card.

        Raises ToolUnavailable where the card is needed and can't be had, and ToolOfferError without A2A's package.
        """
        settings = settings_of(tool)
        if settings.options.protocol == "openai":
            described = tool.description or f"Hands a task to the agent {settings.agent}."
            return [_offering_by_chat(tool, settings, described, DELEGATED)]
        try:
            card = await read_card(self._http, settings)
            if card.form == "a2a" or settings.options.protocol == "a2a":
                return [_offering_by_a2a(tool, settings, card)]
        except CardError as error:
            raise ToolUnavailable(str(error)) from error
        role = DELEGATED if card.form == "kaos" else USER
        return [_offering_by_chat(tool, settings, card.described(tool.description, settings.agent), role)]

    async def execute(self, call: KindCall) -> ToolResult:
        """Hand over the task, and give the agent's answer, or why there is none. Never raises for what it does."""
        settings = settings_of(call.tool)
        if not str(call.arguments[TASK]).strip():
            return _failed(f"missing {TASK!r}: say what the agent is to do", "invalid_arguments")
        try:
            async with asyncio.timeout(settings.options.timeout):
                ask = self._by_a2a if "a2a" in call.details else self._by_chat
                return await ask(call, settings)
        except TimeoutError:
            why = f"no answer within {settings.options.timeout:g} seconds"
            return _failed(why, "timeout", status="timeout", outcome_unknown=True)
        except DelegationError as error:
            return _failed(str(error), error.kind, outcome_unknown=error.outcome_unknown)
        except HttpFailure as error:
            return _failed(str(error), error.kind, outcome_unknown=error.was_sent)

    async def _by_a2a(self, call: KindCall, settings: Settings) -> ToolResult:
        require_client("agents that speak A2A")
        from .a2a_http import AgentError

        try:
            return _told(await self._a2a.execute(_as_a2a_call(call)))
        except AgentError as error:
            unknown = isinstance(error, OutcomeUnknown)
            raise DelegationError(str(error), kind="agent_failed", outcome_unknown=unknown) from error

    async def _by_chat(self, call: KindCall, settings: Settings) -> ToolResult:
        answer = await answer_of(
            self._http,
            settings,
            str(call.arguments[TASK]),
            call.context.conversation,
            role=call.details["role"],
            traceparent=call.context.traceparent,
        )
        return ToolResult.of_text(answer)

    async def abandon(self, call: KindCall) -> None:
        """Cancel the remote task that a lost attempt has begun, where there are tasks. Raises as A2A's client does."""
        if "a2a" in call.details:
            await self._a2a.abandon(_as_a2a_call(call))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()


def _offering_by_chat(tool: Tool, settings: Settings, description: str, role: str) -> Offering:
    return Offering(
        name=tool.name,
        description=description,
        parameters=_PARAMETERS,
        details={"role": role},
        timeout=settings.options.timeout + MARGIN,
        idempotent=False,
        takes_context=True,
    )


def _offering_by_a2a(tool: Tool, settings: Settings, card: Card) -> Offering:
    """Raises CardError for a card that says nothing that can be called."""
    require_client("agents that speak A2A")
    from .a2a_card import callable_part, parsed_card
    from .a2a_settings import settings_of as a2a_settings_of

    try:
        part = callable_part(parsed_card(card.document), a2a_settings_of(as_a2a(tool)))
    except ToolOfferError as error:
        raise CardError(str(error)) from error
    return Offering(
        name=tool.name,
        description=card.described(tool.description, settings.agent),
        parameters=_PARAMETERS,
        details={"a2a": part},
        timeout=settings.options.timeout + MARGIN,
    )


def _as_a2a_call(call: KindCall) -> KindCall:
    told: dict[str, Any] = {"message": str(call.arguments[TASK])}
    return replace(call, tool=as_a2a(call.tool), details=call.details["a2a"], arguments=told)


def _told(result: object) -> ToolResult:
    """The result, an error in the words of delegation."""
    assert isinstance(result, ToolResult)
    if result.status != "error":
        return result
    text = _words(result.text.removeprefix("Error: "))
    parts = [TextPart(value=text), *(part for part in result.parts if not isinstance(part, TextPart))]
    return result.model_copy(update={"parts": parts, "error_message": text})


def _failed(why: str, kind: str, *, status: Any = "error", outcome_unknown: bool = False) -> ToolResult:
    return ToolResult.failure(_words(why), kind=kind, status=status, outcome_unknown=outcome_unknown)


def _words(why: str) -> str:
    return f"{DELEGATION_FAILED}{why}]"
