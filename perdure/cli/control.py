"""`perdure steer` and `cancel`: send a message to a run, or end it."""

from __future__ import annotations

from typing import Annotated

import typer

from ..commands import command_line, shell_word
from . import run_options as options
from .command import execute
from .console import answer, say
from .problems import Failure
from .recorded_run import open_run
from .server_connection import ServerConnection


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
    async with open_run(id) as (server, handle):
        run_id = handle.id
        for_session = f'. Say it to the session: perdure chat --session {shell_word(id)} -m "…"'
        await _require_open(server, run_id, "has ended and reads no more messages", for_session if id != run_id else "")
        await handle.steer(text)
        say(f"Sent to run {run_id}. Watch it: {command_line('watch', run_id)}")
        if as_json:
            answer({"id": run_id, "action": "steer", "text": text})


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
    async with open_run(id) as (server, handle):
        run_id = handle.id
        for_session = f". Close its session: perdure chat --session {shell_word(id)} --close"
        await _require_open(server, run_id, "has already ended", for_session if id != run_id else "")
        await handle.cancel(reason)
        say(f"Cancellation of run {run_id} requested. See how it ends: {command_line('watch', run_id)}")
        if as_json:
            answer({"id": run_id, "action": "cancel", "reason": reason})


async def _require_open(server: ServerConnection, run_id: str, problem: str, hint: str) -> None:
    """Raises `Failure` for a run that has ended."""
    if await server.has_ended(run_id):
        raise Failure(f"run {run_id} {problem}: {command_line('result', run_id)} shows how{hint}")
