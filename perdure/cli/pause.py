"""`perdure pause`, and what `perdure go-on` does with paused runs: they make no further call until
it is typed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated

import typer
from temporalio.client import Client
from temporalio.service import RPCError

from ..client.pauses import pause_runs, pauses_in_force, release_run, release_runs
from ..commands import command_line, shell_word
from ..json_types import JsonObject
from ..protocol.names import GO_ON
from ..protocol.pauses import Pause, Scope
from ..protocol.run import GoOn
from ..text import count_of
from . import shared_options as options
from .ask_person import local_time, this_user
from .command import execute, use_command_class
from .completion import Filters
from .console import answer, say
from .filters import ManyCommand
from .many import (
    Report,
    RunSelection,
    for_each,
    selected_ids,
    selection_of,
    show_dry_run,
    show_report,
)
from .problems import UsageProblem
from .server_connection import ServerConnection, connect_to_server

LOOK_SECONDS = 2.0
"""After so long, the server lists a run that was held when its pause was taken off."""
MAX_LOOKS = 10


@use_command_class(ManyCommand)
def pause(
    context: typer.Context,
    id: options.OpenRunIds = None,
    reason: Annotated[str, typer.Option(help="Why; people read it with each run.")] = "",
    by: options.By = None,
    shown: Annotated[bool, typer.Option("--list", help="List the pauses instead.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Keep runs from making a further model or tool call.

    What is under way ends, and is recorded; then they are held until `perdure go-on`, also when
    workers and the server start anew. With only --agent, --tenant, --task-queue or --session, or
    --all, runs that start later are paused, too.
    """
    if shown:
        execute(_list(as_json))
    else:
        execute(_pause(selection_of(context, id or []), reason, by or this_user(), as_json))


async def _list(as_json: bool) -> None:
    async with connect_to_server() as server:
        found = await pauses_in_force(server.client)
        place = server.place
    if as_json:
        answer([each.model_dump(mode="json") for each in found])
        return
    for each in found:
        but = f"; {count_of(len(each.released), 'run')} may go on" if each.released else ""
        answer(f"{each.id}  {local_time(each.since)}  {each}{but}")
    if not found:
        say(f"Nothing is paused on {place}.")


async def _pause(selection: RunSelection, reason: str, by: str | None, as_json: bool) -> int:
    async with connect_to_server() as server:
        scope = lasting_scope(selection.filters) if not selection.ids else None
        ids = await selected_ids(server, selection, "open")
        if selection.dry_run:
            return show_dry_run("pause", ids, as_json)
        if scope is None and not ids:
            return show_report("pause", "Paused", Report(), as_json)
        chosen = scope or Scope(runs=ids)
        try:
            pause = await pause_runs(server.client, **_arguments(chosen), reason=reason, by=by)
        except ValueError as error:
            raise UsageProblem(str(error)) from error
    if as_json:
        answer(
            {
                "action": "pause",
                "pause": pause.model_dump(mode="json"),
                "count": len(ids),
                "isLasting": bool(scope),
            }
        )
    later = "; runs that start later are paused, too" if scope else ""
    say(
        f"Paused: {pause.scope} ({count_of(len(ids), 'open run')}{later}). Let them go on: "
        f"{_how(chosen)}"
    )
    return 0


def lasting_scope(filters: Filters) -> Scope | None:
    """Return the runs that the filters mean, now and later; None where they only say which runs
    there are now.
    """
    scope = Scope(agent=filters.agent, tenant=filters.tenant, task_queue=filters.task_queue)
    if filters.session:
        scope.runs = [filters.session]
    rest = replace(filters, agent=None, tenant=None, task_queue=None, session=None)
    return scope if rest == Filters() else None


def _arguments(scope: Scope) -> JsonObject:
    return {
        "agent": scope.agent,
        "tenant": scope.tenant,
        "task_queue": scope.task_queue,
        "runs": scope.runs,
    }


def _how(scope: Scope) -> str:
    if len(scope.runs) == 1 and not (scope.agent or scope.tenant or scope.task_queue):
        return command_line("go-on", scope.runs[0])
    named = {"--agent": scope.agent, "--tenant": scope.tenant, "--task-queue": scope.task_queue}
    return command_line(
        "go-on",
        more=" ".join(f"{name} {shell_word(value)}" for name, value in named.items() if value)
        or "--all",
    )


async def go_on_many(selection: RunSelection, go_on: GoOn, *, as_json: bool = False) -> int:
    """Let all held runs go on that are selected, paused ones too; return the exit code.

    The pauses of these runs are taken off: for all runs, where the filters mean all of a pause's,
    else for those that are found. Raises as `selected_ids` does.
    """
    async with connect_to_server() as server:
        client, filters = server.client, selection.filters
        if selection.dry_run:
            return show_dry_run("go-on", await selected_ids(server, selection, "held"), as_json)
        scope = lasting_scope(filters) if not selection.ids else None
        released = [
            each
            for each in await pauses_in_force(client)
            if scope is not None and is_within(each.scope, scope)
        ]
        await release_runs(client, [each.id for each in released], by=go_on.by)
        report = await _let_go_on(server, selection, go_on)
        _print_pauses(released, [] if released or report.done else await pauses_in_force(client))
    return show_report("go-on", "Go on", report, as_json, released=[each.id for each in released])


def _print_pauses(released: Iterable[Pause], left: Sequence[Pause]) -> None:
    """Say which pauses were taken off, and where nothing was let go on, which ones are in force."""
    for each in released:
        say(f"No longer: {each}", "strong")
    if left:
        others = f", and {len(left) - 1} more" if len(left) > 1 else ""
        say(f"Still in force: {left[0]}{others} (perdure pause --list)")


async def _let_go_on(server: ServerConnection, selection: RunSelection, go_on: GoOn) -> Report:
    """Signal all runs that are selected, and look again for those that the server lists late."""
    report = Report()
    for look in range(MAX_LOOKS):
        if look:
            await asyncio.sleep(LOOK_SECONDS)
        try:
            ids = await _held_ids(
                server, selection, {*report.done, *(each["id"] for each in report.failed)}
            )
        except RPCError as error:
            if not look:
                raise
            say(f"The server does not list late ones yet: {error.message}", "faint")
            continue
        if look and not ids:
            break
        more = await for_each(ids, lambda id: _signal(server.client, id, go_on))
        report.done += more.done
        report.failed += more.failed
        if selection.ids:
            break
    return report


def is_within(inner: Scope, outer: Scope) -> bool:
    """Return whether all runs of one scope are runs of the other."""
    pairs = (
        (inner.agent, outer.agent),
        (inner.tenant, outer.tenant),
        (inner.task_queue, outer.task_queue),
    )
    if any(wanted is not None and value != wanted for value, wanted in pairs):
        return False
    return not outer.runs or (bool(inner.runs) and set(inner.runs) <= set(outer.runs))


async def _held_ids(
    server: ServerConnection, selection: RunSelection, known: set[str]
) -> list[str]:
    return [id for id in await selected_ids(server, selection, "held") if id not in known]


async def _signal(client: Client, id: str, go_on: GoOn) -> None:
    await release_run(client, id, by=go_on.by)
    await client.get_workflow_handle(id).signal(GO_ON, go_on)
