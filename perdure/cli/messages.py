"""`perdure messages`: print the conversation of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..excerpt import counted
from . import options
from .console import answer, describe_call, say
from .running import execute
from .session import open_run
from .waiting import waiting_shown

if TYPE_CHECKING:
    from ..messages import Message


def messages(id: options.RunId, as_json: options.AsJson = False) -> None:
    """Print the conversation of a run.

    Runs that have ended keep their conversation.
    """
    execute(_messages(id, as_json))


async def _messages(run_id: str, as_json: bool) -> None:
    async with open_run(run_id) as (_, handle):
        with waiting_shown():
            said = await handle.messages()
    if as_json:
        answer([message.model_dump(mode="json", by_alias=True) for message in said])
        return
    for message in said:
        answer(_paragraph(message))
    say(counted(len(said), "message"), "faint")


def _paragraph(message: Message) -> str:
    calls = "".join(f"\n  → {describe_call(call.name, call.arguments)}" for call in message.tool_calls)
    others = "".join(f"\n  [{part.kind}]" for part in message.parts if part.kind != "text")
    return f"[{message.role}] {message.text}{others}{calls}\n"
