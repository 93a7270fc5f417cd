"""`perdure steer`: send a message to a run."""

from __future__ import annotations

from typing import Annotated

import typer

from ..shell import command_line, shell_word
from . import options
from .console import answer, say
from .problems import Failure
from .running import execute
from .session import open_run


def steer(
    id: options.OpenRunId,
    text: Annotated[str, typer.Argument(help="What the agent is to read.")],
    as_json: options.AsJson = False,
) -> None:
    """Send a message to a run.

    The agent reads it before its next model call.
    """
    execute(_steer(id, text, as_json))


async def _steer(id: str, text: str, as_json: bool) -> None:
    async with open_run(id) as (session, handle):
        run_id = handle.id
        if await session.has_ended(run_id):
            raise Failure(
                f"run {run_id} has ended and reads no more messages: {command_line('result', run_id)} shows how"
                + (f'. Say it to the session: perdure chat --session {shell_word(id)} -m "…"' if id != run_id else "")
            )
        await handle.steer(text)
        say(f"Sent to run {run_id}. Watch it: {command_line('watch', run_id)}")
        if as_json:
            answer({"id": run_id, "action": "steer", "text": text})
