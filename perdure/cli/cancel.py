"""`perdure cancel`: end a run."""

from __future__ import annotations

from typing import Annotated

import typer

from ..shell import command_line, shell_word
from . import options
from .console import answer, say
from .problems import Failure
from .running import execute
from .session import open_run


def cancel(
    id: options.OpenRunId,
    reason: Annotated[str, typer.Option(help="Why; it is recorded with the run.")] = "",
    as_json: options.AsJson = False,
) -> None:
    """Cancel a run.

    A running tool gets time to finish; no further tool or model call is started.
    """
    execute(_cancel(id, reason, as_json))


async def _cancel(id: str, reason: str, as_json: bool) -> None:
    async with open_run(id) as (session, handle):
        run_id = handle.id
        if await session.has_ended(run_id):
            raise Failure(
                f"run {run_id} has already ended: {command_line('result', run_id)} shows how"
                + (f". Close its session: perdure chat --session {shell_word(id)} --close" if id != run_id else "")
            )
        await handle.cancel(reason)
        say(f"Cancellation of run {run_id} requested. See how it ends: {command_line('watch', run_id)}")
        if as_json:
            answer({"id": run_id, "action": "cancel", "reason": reason})
