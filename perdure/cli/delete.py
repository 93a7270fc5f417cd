"""`perdure delete`: deletes runs and sessions for good."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

from ..client.deletion import (
    KINDS,
    WAIT_SECONDS,
    Deletion,
    Deletions,
    DeletionTarget,
    find_targets,
    schedules_of,
)
from ..client.embedded.state import forget_deleted
from ..client.family import SCHEDULED
from ..json_types import JsonObject
from ..private_files import data_folder
from ..text import count_of
from .console import say
from .filters import Filters, query_explained
from .given import Given
from .many import RunSelection, for_each, require_yes, selection_of, show_dry_run, show_report
from .server_connection import ServerConnection, connect_to_server

UNREACHED = (
    "perdure sweep removes stored values later. The command does not reach logs, traces, exports, "
    "backups, archived histories, other namespaces or model providers: perdure docs deletion"
)
_WORDS = {
    "caller": "has called {0}, and holds its input and its answer",
    "session": "is the session of {0}, and has its conversation",
    "fork": "is a fork of {0}, and has its conversation",
}


async def delete(given: Given) -> int:
    """Delete runs, after a question; return the exit code."""
    selection = selection_of(given)
    async with connect_to_server() as server:
        targets = await _targets(server, selection)
        if selection.dry_run:
            return show_dry_run("delete", list(targets), given.as_json)
        if targets and not given.yes:
            [*ids] = targets
            shown = ids[0] if len(ids) == 1 else count_of(len(ids), "run")
            await require_yes(f"Delete {shown} for good?", "delete")
        deletions = Deletions(server.client, force=given.force, going=targets)
        deleted: list[Deletion] = []

        async def remove(id: str) -> None:
            deleted.extend([await deletions.delete(target) for target in targets[id]])

        async def remove_schedule(id: str) -> None:
            deleted.append(await deletions.delete_schedule(id.removeprefix(SCHEDULED)))

        # Without their schedules, no further runs start.
        schedules = [id for id, found in targets.items() if not found]
        report = await for_each(schedules, remove_schedule)
        rest = await for_each([id for id in targets if id not in schedules], remove)
        absent = _absent(deleted)
        report.done = [id for id in (*report.done, *rest.done) if id not in absent]
        report.failed += rest.failed
        pending = await _wait(deletions, given.wait)
        # Also if the environment names the server: it may be this folder's.
        forget_deleted(server.embedded.folder if server.embedded else data_folder())
        about = {**_say_what(deleted, targets, absent), "pending": pending}
        code = show_report("delete", "Deleted", report, given.as_json, **about, unreached=UNREACHED)
        if report.done:
            say(UNREACHED, "faint")
        return code


async def _wait(deletions: Deletions, wait: bool) -> int:
    """Return and report how many histories the server has yet to delete."""
    pending = await deletions.pending()
    if pending and wait:
        say(
            "The server deletes runs that have just ended a minute later; waiting",
            "faint",
        )
        pending = await deletions.pending(WAIT_SECONDS)
    if pending:
        say(
            f"The server will delete {pending:,} more histories by itself",
            "strong",
        )
    return pending


async def _targets(
    server: ServerConnection, selection: RunSelection
) -> dict[str, list[DeletionTarget]]:
    """Return the targets, by id; a schedule has none. Raises `UsageProblem` for more than the
    command line accepts.
    """
    if selection.ids:
        return {id: [DeletionTarget(id)] for id in selection.ids}
    filters, tenant = selection.filters, selection.filters.tenant
    targets: dict[str, list[DeletionTarget]] = {}
    if tenant is not None and filters == Filters(tenant=tenant):
        targets = {SCHEDULED + name: [] async for name in schedules_of(server.client, tenant)}
    with query_explained(filters):
        found = await find_targets(
            server.client, [replace(filters, workflow=type).query() for type in KINDS]
        )
    selection.require_few(len(found))
    for target in found:
        targets.setdefault(target.id, []).append(target)
    return targets


def _absent(deleted: Sequence[Deletion]) -> list[str]:
    """Return the ids without anything to delete."""
    gone = {id for each in deleted for id in each.runs}
    return [each.id for each in deleted if not each.runs and each.id not in gone]


def _say_what(
    deleted: Sequence[Deletion], targets: Container[str], absent: Sequence[str]
) -> JsonObject:
    """Report the deleted runs and the remaining ones; return the report as JSON."""
    histories = sum(each.histories for each in deleted)
    gone = {id for each in deleted for id in each.runs}
    if absent:
        some = f"{', '.join(absent[:5])}{' …' if len(absent) > 5 else ''}"
        say(f"Nothing was left of {some}", "strong")
    left = [(each, of.id) for of in deleted for each in of.left if each.id not in gone]
    for each, of in left[:20]:
        say(f"{each.id} {_WORDS[each.what].format(of)}", "strong")
    if len(left) > 20:
        say(f"and {len(left) - 20:,} more, which --json has", "strong")
    if histories:
        called = [id for id in gone if id not in targets]
        begun = f", called runs: {len(called):,}" if called else ""
        say(f"Deleted for good: histories: {histories:,}{begun}", "faint")
    return {
        "runs": sorted(gone),
        "histories": histories,
        "left": [{"id": each.id, "what": each.what, "of": of} for each, of in left],
    }
