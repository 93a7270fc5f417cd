"""The tool of the agent, and a model that asks for it once."""

from __future__ import annotations

import asyncio

from perdure.messages import ToolCall
from perdure.testing import ScriptedReply, ScriptedRequest
from perdure.tools import tool


@tool
async def look_up_age(person: str, wait: float = 0) -> str:
    await asyncio.sleep(wait)
    return f"{person} is {len(person) * 10}"


def script(request: ScriptedRequest) -> ScriptedReply:
    if request.step == 0:
        person = request.messages[-1].text.removeprefix("How old is ").removesuffix("?")
        return ScriptedReply(
            tool_calls=[
                ToolCall(id="c1", name="look_up_age", arguments=f'{{"person": "{person}"}}')
            ]
        )
    return ScriptedReply(text=f"{request.messages[-1].text}.")
