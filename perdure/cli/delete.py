"""`perdure delete`: deletes runs, sessions and schedules for good."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer

from ..client.deletion import KINDS, WAIT_SECONDS, Deletion, Deletions, DeletionTarget, find_targets
from ..client.embedded.state import forget_deleted
from ..client.family import SCHEDULED
from ..client.own_values import schedules_of
from ..json_types import JsonObject
from ..private_files import data_folder
from ..text import count_of
from . import shared_options as options
from .command import execute, use_command_class
from .completion import Filters, run_ids
from .console import say
from .filters import ManyCommand, query_explained
from .many import RunSelection, for_each, require_yes, selection_of, show_dry_run, show_report
from .problems import UsageProblem
from .server_connection import ServerConnection, connect_to_server

UNREACHED = (
    "Logs, traces, exports, backups, archived histories, other namespaces and the providers of "
    "models are not reached: "
    "perdure docs deletion"
)
_WORDS = {
    "caller": "has called {0}, and holds its input and its answer",
    "session": "is the session of {0}, and has its conversation",
    "fork": "is a fork of {0}, and has its conversation",
    "shared_values": (
        "has stored values to which another run may refer: perdure sweep removes the others"
    ),
}


@use_command_class(ManyCommand)
def delete(
    context: typer.Context,
    id: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID", help="Runs, sessions, or schedule:NAME.", autocompletion=run_ids
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Terminate open runs, then delete them, too.")
    ] = False,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait/--no-wait",
            help="Wait until the server has deleted histories: two minutes at most.",
        ),
    ] = True,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without being asked.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Delete runs and sessions for good, with their child runs and their stored values.

    With --tenant alone, the tenant's schedules, too. What was deleted in part is completed by the
    same command.
    """
    execute(
        _delete(selection_of(context, id or []), force=force, wait=wait, yes=yes, as_json=as_json)
    )


async def _delete(
    selection: RunSelection, *, force: bool, wait: bool, yes: bool, as_json: bool
) -> int:
    async with connect_to_server() as server:
        targets = await _targets(server, selection)
        if selection.dry_run:
            return show_dry_run("delete", list(targets), as_json)
        if targets and not yes:
            await require_yes(f"Delete {_short_list(targets)} for good?", "delete")
        deletions, deleted = Deletions(server.client, force=force, going=targets), list[Deletion]()

        async def remove(id: str) -> None:
            deleted.extend([await deletions.delete(target) for target in targets[id]])

        first = [
            id for id in targets if id.startswith(SCHEDULED)
        ]  # After that, they start no further runs.
        report = await for_each(first, remove)
        rest = await for_each([id for id in targets if id not in first], remove)
        report.done += rest.done
        report.failed += rest.failed
        absent = _absent(deleted)
        report.done = [id for id in report.done if id not in absent]
        pending = await _wait(deletions, wait)
        # Also if the environment names the server: it may be this folder's.
        forget_deleted(server.embedded.folder if server.embedded else data_folder())
        told = {**_say_what(deleted, targets), "pending": pending}
        code = show_report("delete", "Deleted", report, as_json, **told, unreached=UNREACHED)
        if report.done:
            say(UNREACHED, "faint")
        return code


async def _wait(deletions: Deletions, wait: bool) -> int:
    """Return and report how many histories the server has yet to delete."""
    pending = await deletions.pending()
    if pending and wait:
        say(
            "The server deletes histories of runs that have ended just now a minute later; waiting",
            "faint",
        )
        pending = await deletions.pending(WAIT_SECONDS)
    if pending:
        say(
            f"The server has still to delete {pending:,} histories, and does so on its own",
            "strong",
        )
    return pending


async def _targets(
    server: ServerConnection, selection: RunSelection
) -> dict[str, list[DeletionTarget]]:
    """Return the targets, by id. Raises `UsageProblem` for more than the command line accepts."""
    if selection.ids:
        return {id: [DeletionTarget(id)] for id in selection.ids}
    filters, tenant = selection.filters, selection.filters.tenant
    found: list[DeletionTarget] = []
    if tenant is not None and filters == Filters(tenant=tenant):
        found += [
            DeletionTarget(SCHEDULED + name) async for name in schedules_of(server.client, tenant)
        ]
    with query_explained(filters):
        found += await find_targets(
            server.client, [replace(filters, workflow=type).query() for type in KINDS]
        )
    if selection.at_most is not None and len(found) > selection.at_most:
        expected = f"expected at most {selection.at_most:,} (--at-most)"
        raise UsageProblem(
            f"the filters find {count_of(len(found), 'run')}, sessions and schedules included, "
            f"{expected}"
        )
    targets: dict[str, list[DeletionTarget]] = {}
    for target in found:
        targets.setdefault(target.id, []).append(target)
    return targets


def _short_list(targets: dict[str, list[DeletionTarget]]) -> str:
    shown = list(targets)
    return shown[0] if len(shown) == 1 else count_of(len(shown), "run")


def _absent(deleted: Sequence[Deletion]) -> list[str]:
    """Return the ids without anything to delete."""
    gone = {id for each in deleted for id in each.runs}
    return [
        each.id for each in deleted if not each.runs and each.id not in gone and not each.values
    ]


def _say_what(deleted: Sequence[Deletion], targets: dict[str, list[DeletionTarget]]) -> JsonObject:
    """Report the deleted runs and the remaining ones; return the report as JSON."""
    histories, values = (
        sum(each.histories for each in deleted),
        sum(each.values for each in deleted),
    )
    gone = {id for each in deleted for id in each.runs}
    if nothing := _absent(deleted):
        say(
            "There was nothing (any more) of "
            f"{', '.join(nothing[:5])}{' …' if len(nothing) > 5 else ''}",
            "strong",
        )
    left = [
        (each, of.id)
        for of in deleted
        for each in of.left
        if each.id not in gone or each.what == "shared_values"
    ]
    for each, of in left[:20]:
        say(f"{each.id} {_WORDS[each.what].format(of)}", "strong")
    if len(left) > 20:
        say(f"and {len(left) - 20:,} more, which --json has", "strong")
    if histories or values:
        begun = (
            f"; of runs that they had begun: {len(gone - set(targets)):,}"
            if gone - set(targets)
            else ""
        )
        say(f"Gone for good: histories: {histories:,}, stored values: {values:,}{begun}", "faint")
    return {
        "runs": sorted(gone),
        "histories": histories,
        "values": values,
        "left": [{"id": each.id, "what": each.what, "of": of} for each, of in left],
    }
