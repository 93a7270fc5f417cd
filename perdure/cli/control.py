"""`perdure steer` and `cancel`: send a message to a run, or end runs."""

from __future__ import annotations

from ..client import RunHandle, get_run
from ..commands import command_line, shell_word
from ..text import count_of
from .console import answer, say
from .given import Given
from .many import for_each, require_yes, selected_ids, selection_of, show_dry_run, show_report
from .problems import DONE, Failure, UsageProblem
from .recorded_run import open_run
from .server_connection import ServerConnection, connect_to_server


async def steer(given: Given) -> None:
    """Send a message to a run. Raises `Failure` for one that has ended, and `UsageProblem`."""
    if not given.text:
        raise UsageProblem("expected a message to the agent: perdure steer ID TEXT")
    async with open_run(given.id) as (server, handle):
        of_session = f'. Send it to the session: {_session(given.id)} -m "…"'
        await _require_open(
            server, handle, given.id, "has ended and reads no more messages", of_session
        )
        await handle.steer(given.text)
        say(f"Sent to run {handle.id}. Watch it: {command_line('watch', handle.id)}")
        if given.as_json:
            answer({"id": handle.id, "action": "steer", "text": given.text})


async def cancel(given: Given) -> int:
    """Cancel runs; return the exit code."""
    selection = selection_of(given)
    if selection.is_one:
        await _cancel(selection.ids[0], given)
        return DONE
    async with connect_to_server() as server:
        ids = await selected_ids(server, selection, "running")
        if selection.dry_run:
            return show_dry_run("cancel", ids, given.as_json)
        if ids and not given.yes:
            await require_yes(f"Cancel {count_of(len(ids), 'run')}?", "cancel")
        report = await for_each(ids, lambda id: get_run(server.client, id).cancel(given.reason))
        return show_report("cancel", "Cancellation requested", report, given.as_json)


async def _cancel(id: str, given: Given) -> None:
    async with open_run(id) as (server, handle):
        of_session = f". Close its session: {_session(id)} --close"
        await _require_open(server, handle, id, "has already ended", of_session)
        await handle.cancel(given.reason)
        watch = command_line("watch", handle.id)
        say(f"Cancellation of run {handle.id} requested. See how it ends: {watch}")
        if given.as_json:
            answer({"id": handle.id, "action": "cancel", "reason": given.reason})


def _session(id: str) -> str:
    return f"perdure chat --session {shell_word(id)}"


async def _require_open(
    server: ServerConnection, run: RunHandle, id: str, problem: str, of_session: str
) -> None:
    """Raises `Failure` for a run that has ended; `id` is its own or its session's."""
    if await server.has_ended(run.id):
        hint = of_session if id != run.id else ""
        raise Failure(f"run {run.id} {problem}: {command_line('result', run.id)} shows how{hint}")
