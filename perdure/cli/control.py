"""`perdure steer` and `cancel`: send a message to a run, or end runs."""

from __future__ import annotations

from typing import Annotated

import typer

from ..client import get_run
from ..commands import command_line, shell_word
from ..text import count_of
from . import shared_options as options
from .command import execute, use_command_class
from .console import answer, say
from .filters import ManyCommand
from .many import (
    RunSelection,
    for_each,
    require_yes,
    selected_ids,
    selection_of,
    show_dry_run,
    show_report,
)
from .problems import Failure, UsageProblem
from .recorded_run import open_run
from .server_connection import ServerConnection, connect_to_server


def steer(
    id: options.OpenRunId,
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="The message to the agent.", show_default=False)
    ],
    as_json: options.AsJson = False,
) -> None:
    """Send a message to a run.

    The agent reads it before its next model call.
    """
    execute(_steer(id, text, as_json))


async def _steer(id: str, text: str, as_json: bool) -> None:
    if not text:
        raise UsageProblem("expected a message to the agent: perdure steer ID TEXT")
    async with open_run(id) as (server, handle):
        run_id = handle.id
        for_session = f'. Say it to the session: perdure chat --session {shell_word(id)} -m "…"'
        await _require_open(
            server,
            run_id,
            "has ended and reads no more messages",
            for_session if id != run_id else "",
        )
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

    A running tool gets time to finish; no further tool or model call starts.
    """
    selection = selection_of(context, id or [])
    if selection.is_one:
        execute(_cancel(selection.ids[0], reason, as_json))
        return
    execute(_cancel_many(selection, reason, yes, as_json))


async def _cancel_many(selection: RunSelection, reason: str, yes: bool, as_json: bool) -> int:
    async with connect_to_server() as server:
        ids = await selected_ids(server, selection, "open")
        if selection.dry_run:
            return show_dry_run("cancel", ids, as_json)
        if ids and not yes:
            await require_yes(f"Cancel {count_of(len(ids), 'run')}?", "cancel")
        report = await for_each(ids, lambda id: get_run(server.client, id).cancel(reason))
        return show_report("cancel", "Cancellation requested", report, as_json)


async def _cancel(id: str, reason: str, as_json: bool) -> None:
    async with open_run(id) as (server, handle):
        run_id = handle.id
        for_session = f". Close its session: perdure chat --session {shell_word(id)} --close"
        await _require_open(
            server, run_id, "has already ended", for_session if id != run_id else ""
        )
        await handle.cancel(reason)
        say(
            f"Cancellation of run {run_id} requested. See how it ends: "
            f"{command_line('watch', run_id)}"
        )
        if as_json:
            answer({"id": run_id, "action": "cancel", "reason": reason})


async def _require_open(server: ServerConnection, run_id: str, problem: str, hint: str) -> None:
    """Raises `Failure` for a run that has ended."""
    if await server.has_ended(run_id):
        raise Failure(f"run {run_id} {problem}: {command_line('result', run_id)} shows how{hint}")
