"""The kind of tool `a2a`: offers one function for a remote agent, and calls it by the official client."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from typing import ClassVar

from ...declared_tools import Tool
from ...messages import JsonObject
from ..kind import Asking, KindCall, Offering, ToolKind, ToolOfferError
from .a2a_settings import DEFAULT_TIMEOUT, problems_of, settings_of

_PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "description": "What to tell the agent: all that it has to know."},
        "context_id": {
            "type": "string",
            "maxLength": 256,
            "description": "Only to answer what the agent has asked for: the context_id that it gave.",
        },
        "task_id": {
            "type": "string",
            "maxLength": 256,
            "pattern": "^[^/?#]*$",
            "description": "Only to answer what the agent has asked for: the task_id that it gave.",
        },
    },
    "required": ["message"],
    "additionalProperties": False,
}


class A2AKind(ToolKind):
    """Agents that speak A2A 1.0, by JSON-RPC or by HTTP and JSON."""

    asks_others: ClassVar[bool] = True

    def __init__(self) -> None:
        # Not later, in the thread of tools: the OpenAI SDK uses this module as soon as `sys.modules` has it, which is
        # before another thread has imported all of it.
        if importlib.util.find_spec("httpx") is not None:
            importlib.import_module("httpx")

    def problems(self, tool: Tool) -> Sequence[str]:
        """As `ToolKind.problems`."""
        return problems_of(tool)

    async def offer(self, tool: Tool, asking: Asking) -> Sequence[Offering]:
        """One function of the tool's name, described by the agent's card. Raises ToolOfferError."""
        require_client()
        from .a2a_card import callable_part, described, fetch_card

        settings = settings_of(tool)
        card = await fetch_card(settings)
        return [
            Offering(
                name=tool.name,
                description=described(card, tool.description),
                parameters=_PARAMETERS,
                details=callable_part(card, settings),
                timeout=(tool.perdure.timeout if tool.perdure else None) or DEFAULT_TIMEOUT,
            )
        ]

    async def execute(self, call: KindCall) -> object:
        """Send the message, and follow the task until it rests.

        Raises AgentError when the agent can't be asked or followed, and ToolOfferError without the client's package.
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


def require_client(what: str = "tools of kind a2a") -> None:
    """Raises ToolOfferError without the official client."""
    if importlib.util.find_spec("a2a") is None:
        raise ToolOfferError(f"{what} need a package that is not installed: pip install 'perdure[a2a]'")
