"""The tools of the talker, and a model that uses them when it is told to."""

from __future__ import annotations

import asyncio
from pathlib import Path

from perdure.guardrails import Guardrails
from perdure.messages import Message, ToolCall
from perdure.testing import ScriptedReply, ScriptedRequest
from perdure.tools import tool


@tool
def note(file: str) -> str:
    with Path(file).open("a") as notes:
        notes.write("noted\n")
    return "noted"


@tool
async def wait(file: str) -> str:
    while not Path(file).exists():
        await asyncio.sleep(0.05)
    return "there"


def _polite(text: str) -> str:
    return f"Please: {text}"


polite = Guardrails(validator=_polite)


def script(request: ScriptedRequest) -> ScriptedReply:
    """`note FILE` and `wait FILE` call the tools, one after the other; else it says what it has
    been told.
    """
    asked = [place for place, message in enumerate(request.messages) if message.role == "user"]
    last, since = request.messages[asked[-1]].text, request.messages[asked[-1] :]
    wanted = [line.split() for line in last.split("; ") if line.startswith(("note ", "wait "))]
    done = sum(message.role == "tool" for message in since)
    if done < len(wanted):
        name, file = wanted[done]
        call = ToolCall(
            id=f"{name}-{len(request.messages)}", name=name, arguments=f'{{"file": "{file}"}}'
        )
        return ScriptedReply(tool_calls=[call])
    if last == "fail":
        return ScriptedReply(status=400)
    return ScriptedReply(text=f"Heard: {', '.join(_heard(request.messages))}.")


def _heard(messages: list[Message]) -> list[str]:
    return [message.text.split()[0] for message in messages if message.role == "user"]
