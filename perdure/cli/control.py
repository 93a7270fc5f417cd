"""`perdure steer` and `cancel`: send a message to runs, or end them."""

from __future__ import annotations

from typing import Annotated

import typer

from ..commands import command_line, shell_word
from . import shared_options as options
from .command import execute, use_command_class
from .console import answer, say
from .filters import ManyCommand
from .many import Act, act_on_many, selection_of
from .problems import Failure, UsageProblem
from .recorded_run import open_run
from .server_connection import ServerConnection


@use_command_class(ManyCommand)
def steer(
    context: typer.Context,
    id: options.RunIdOrFilters,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="What the agent is to read.", show_default=False)
    ] = None,
    yes: options.YesToAll = False,
    as_json: options.AsJson = False,
) -> None:
    """Send a message to a run, or to many: steer --agent NAME TEXT.

    The agent reads it before its next model call.
    """
    id, said = (None, id) if text is None else (id, text)
    said = _require_text(said)
    selection = selection_of(context, [id])
    if selection.is_one:
        execute(_steer(selection.ids[0], said, as_json))
        return
    act = Act("steer", "Send this to", "Sent", lambda run: run.steer(said), is_final=True)
    execute(act_on_many(act, selection, yes=yes, as_json=as_json))


def _require_text(text: str | None) -> str:
    if not text:
        raise UsageProblem("expected what the agent is to read: perdure steer ID TEXT")
    return text


async def _steer(id: str, text: str, as_json: bool) -> None:
    async with open_run(id) as (server, handle):
        run_id = handle.id
        for_session = f'. Say it to the session: perdure chat --session {shell_word(id)} -m "…"'
        await _require_open(server, run_id, "has ended and reads no more messages", for_session if id != run_id else "")
        await handle.steer(text)
        say(f"Sent to run {run_id}. Watch it: {command_line('watch', run_id)}")
        if as_json:
            answer({"id": run_id, "action": "steer", "text": text})


@use_command_class(ManyCommand)
def cancel(
    context: typer.Context,
    id: options.OpenRunIds = None,
    reason: Annotated[str, typer.Option(help="Why; it is recorded with the run.")] = "",
    yes: options.YesToAll = False,
    as_json: options.AsJson = False,
) -> None:
    """Cancel a run, or many.

    A running tool gets time to finish; no further tool or model call is started.
    """
    selection = selection_of(context, id or [])
    if selection.is_one:
        execute(_cancel(selection.ids[0], reason, as_json))
        return
    act = Act("cancel", "Cancel", "Cancellation requested", lambda run: run.cancel(reason), is_final=True)
    execute(act_on_many(act, selection, yes=yes, as_json=as_json))


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
