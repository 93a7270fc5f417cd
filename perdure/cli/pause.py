"""`perdure pause`, and the release of paused runs by `perdure go-on`."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from temporalio.client import Client
from temporalio.service import RPCError

from ..client.pauses import pause_runs, pauses_in_force, release_run, release_runs
from ..commands import command_line, shell_word
from ..protocol.names import GO_ON
from ..protocol.pauses import Scope
from ..protocol.run import GoOn
from ..text import count_of
from .ask_person import local_time, this_user
from .console import answer, say
from .filters import Filters
from .given import Given
from .many import (
    Report,
    RunSelection,
    for_each,
    selected_ids,
    selection_of,
    show_dry_run,
    show_report,
)
from .problems import DONE, UsageProblem
from .server_connection import ServerConnection, connect_to_server

LOOK_SECONDS = 2.0
"""After so long, the server lists a run that was held when its pause was taken off."""
MAX_LOOKS = 10


async def pause(given: Given) -> int:
    """Pause runs, or list the pauses; return the exit code. Raises `UsageProblem` for too many
    runs.
    """
    if given.list:
        return await _list(given.as_json)
    selection = selection_of(given)
    async with connect_to_server() as server:
        lasting = None if selection.ids else lasting_scope(selection.filters)
        ids = await selected_ids(server, selection, "running")
        if selection.dry_run:
            return show_dry_run("pause", ids, given.as_json)
        if lasting is None and not ids:
            return show_report("pause", "Paused", Report(), given.as_json)
        scope, by = lasting or Scope(runs=ids), given.by or this_user()
        try:
            pause = await pause_runs(server.client, **dict(scope), reason=given.reason, by=by)
        except ValueError as error:
            raise UsageProblem(str(error)) from error
    if given.as_json:
        about = {"pause": pause.model_dump(mode="json"), "isLasting": bool(lasting)}
        answer({"action": "pause", "count": len(ids), **about})
    later = "; runs that start later are paused, too" if lasting else ""
    counted = f"{count_of(len(ids), 'open run')}{later}"
    say(f"Paused: {pause.scope} ({counted}). Resume them: {_release_command(scope)}")
    return DONE


async def _list(as_json: bool) -> int:
    async with connect_to_server() as server:
        found = await pauses_in_force(server.client)
        place = server.place
    if as_json:
        answer([each.model_dump(mode="json") for each in found])
        return DONE
    for each in found:
        but = f"; {count_of(len(each.released), 'run')} may go on" if each.released else ""
        answer(f"{each.id}  {local_time(each.since)}  {each}{but}")
    if not found:
        say(f"Nothing is paused on {place}.")
    return DONE


def lasting_scope(filters: Filters) -> Scope | None:
    """Return the runs that the filters select, now and later; None for filters that select only
    present runs.
    """
    rest = replace(filters, agent=None, tenant=None, task_queue=None, session=None)
    if rest != Filters():
        return None
    runs = [filters.session] if filters.session else []
    return Scope(
        agent=filters.agent, tenant=filters.tenant, task_queue=filters.task_queue, runs=runs
    )


def _release_command(scope: Scope) -> str:
    if len(scope.runs) == 1 and scope == Scope(runs=scope.runs):
        return command_line("go-on", scope.runs[0])
    named = {"--agent": scope.agent, "--tenant": scope.tenant, "--task-queue": scope.task_queue}
    filters = [f"{name} {shell_word(value)}" for name, value in named.items() if value]
    return command_line("go-on", more=" ".join(filters) or "--all")


async def go_on_many(selection: RunSelection, go_on: GoOn, *, as_json: bool = False) -> int:
    """Resume all selected held runs, paused ones too; return the exit code.

    Their pauses are taken off: for all runs, where the filters cover all of a pause's runs, else
    for the found ones. Raises as `selected_ids` does.
    """
    async with connect_to_server() as server:
        if selection.dry_run:
            ids = await selected_ids(server, selection, "held")
            return show_dry_run("go-on", ids, as_json)
        scope = None if selection.ids else lasting_scope(selection.filters)
        in_force = await pauses_in_force(server.client) if scope else []
        released = [each for each in in_force if scope and is_within(each.scope, scope)]
        await release_runs(server.client, [each.id for each in released], by=go_on.by)
        report = await _resume_all(server, selection, go_on)
        left = [] if released or report.done else await pauses_in_force(server.client)
    for each in released:
        say(f"Pause ended: {each}", "strong")
    if left:
        others = f", and {len(left) - 1} more" if len(left) > 1 else ""
        say(f"Still in force: {left[0]}{others} (perdure pause --list)")
    return show_report("go-on", "Resumed", report, as_json, released=[each.id for each in released])


async def _resume_all(server: ServerConnection, selection: RunSelection, go_on: GoOn) -> Report:
    """Signal all selected runs, and look again for those that the server lists late."""
    report = Report()
    for look in range(1 if selection.ids else MAX_LOOKS):
        if look:
            await asyncio.sleep(LOOK_SECONDS)
        try:
            found = await selected_ids(server, selection, "held")
        except RPCError as error:
            if not look:
                raise
            say(f"The server does not list late ones yet: {error.message}", "faint")
            continue
        known = {*report.done, *(each["id"] for each in report.failed)}
        ids = [id for id in found if id not in known]
        if look and not ids:
            break
        more = await for_each(ids, lambda id: _signal(server.client, id, go_on))
        report.done += more.done
        report.failed += more.failed
    return report


def is_within(inner: Scope, outer: Scope) -> bool:
    """Return whether all runs of one scope are runs of the other."""
    wanted = outer.model_dump(include={"agent", "tenant", "task_queue"}, exclude_none=True)
    if any(getattr(inner, name) != value for name, value in wanted.items()):
        return False
    return not outer.runs or (bool(inner.runs) and set(inner.runs) <= set(outer.runs))


async def _signal(client: Client, id: str, go_on: GoOn) -> None:
    await release_run(client, id, by=go_on.by)
    await client.get_workflow_handle(id).signal(GO_ON, go_on)
