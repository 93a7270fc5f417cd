"""Calls a tool of kind a2a as a worker does, without one."""

from __future__ import annotations

from typing import Any

from perdure import load_dict
from perdure.agents import Agent
from perdure.messages import ToolResult
from perdure.tools.context import ToolContext
from perdure.tools.kind import Asking, KindCall, Offering
from perdure.tools.remote.kind import A2AKind

KEY = "a-very-secret-key-of-the-office"


def agent_with(url: str, *, key: str | None = None, **more: Any) -> Agent:
    """An agent with one tool `weather`, which is the remote agent at `url`."""
    connection = {"kind": "key", "endpoint": url, **({"apiKey": key} if key else {})}
    tool = {"name": "weather", "kind": "a2a", "connection": connection, **more}
    return load_dict(
        {"name": "test", "model": {"id": "m"}, "tools": [tool], "instructions": "user:\nhi"}
    )


async def offered(agent: Agent) -> Offering:
    """What the model is offered. Raises ToolOfferError."""
    [tool] = agent.tools or []
    kind = A2AKind()
    try:
        [offering] = await kind.offer(tool, Asking(agent, {}))
    finally:
        await kind.close()
    return offering


async def called(
    agent: Agent, offering: Offering, context: ToolContext | None = None, **arguments: Any
) -> ToolResult:
    """The result of one call. Raises AgentError."""
    [tool] = agent.tools or []
    context = context or ToolContext(run_id="run", call_id="call", idempotency_key="run/1/0")
    call = KindCall(tool, offering.name, offering.details, arguments, agent, {}, context)
    result = await A2AKind().execute(call)
    assert isinstance(result, ToolResult)
    return result
