"""A tool that a person must agree to, and a model that asks for it once."""

from __future__ import annotations

from perdure.messages import ToolCall
from perdure.testing import ScriptedReply, ScriptedRequest
from perdure.tools import tool


@tool(needs_approval=True)
def pay(amount: int) -> str:
    return f"paid {amount}"


def twice(request: ScriptedRequest) -> ScriptedReply:
    """Two calls, one after the other, of one id."""
    if request.step < 2:
        amount = (1, 999_999)[request.step]
        return ScriptedReply(
            tool_calls=[ToolCall(id="c 1;x", name="pay", arguments=f'{{"amount": {amount}}}')]
        )
    return ScriptedReply(text=request.messages[-1].text)


def script(request: ScriptedRequest) -> ScriptedReply:
    if request.step == 0:
        return ScriptedReply(tool_calls=[ToolCall(id="c1", name="pay", arguments='{"amount": 7}')])
    return ScriptedReply(text=request.messages[-1].text)
