"""`perdure sweep`: remove from the storage what no run refers to any more."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from ..client.sweeping import HOUR_SECONDS, sweep_storage
from ..text import count_of
from . import shared_options as options
from .command import execute
from .completion import moment_of
from .console import answer, say
from .many import require_yes
from .problems import UsageProblem
from .server_connection import connect_to_server


def sweep(
    older_than: Annotated[
        str,
        typer.Option(metavar="AGE", help="The minimum age of a value to be deleted; at least 1h."),
    ] = "1d",
    shared: Annotated[
        bool,
        typer.Option(
            "--shared",
            help="Delete values outside the runs' folders, too: only if nothing else uses them.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the values to be deleted, and delete nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Remove without being asked.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Delete unreferenced values from the storage.

    Workers may go on meanwhile. The storage is that of PERDURE_STORAGE, as far as this namespace
    uses it.
    """
    execute(_sweep(_seconds(older_than), shared=shared, dry_run=dry_run, yes=yes, as_json=as_json))


def _seconds(older_than: str) -> float:
    seconds = (datetime.now(UTC) - moment_of("--older-than", older_than)).total_seconds()
    if seconds < HOUR_SECONDS - 1:
        raise UsageProblem(
            f"--older-than {older_than!r}: expected 1h at least: a younger value may be on its way"
        )
    return max(seconds, HOUR_SECONDS)


async def _sweep(
    older_than: float, *, shared: bool, dry_run: bool, yes: bool, as_json: bool
) -> None:
    async with connect_to_server() as server:
        found = await sweep_storage(
            server.client, older_than=older_than, shared=shared, dry_run=True
        )
        if found.removed and not dry_run:
            if not yes:
                place = f"the namespace {server.client.namespace!r} of {server.place}"
                await require_yes(
                    f"Remove {count_of(len(found.removed), 'value')} that nothing in {place} "
                    "refers to?",
                    "sweep",
                )
            found = await sweep_storage(server.client, older_than=older_than, shared=shared)
    if as_json:
        answer({"action": "sweep", "dryRun": dry_run, **found.model_dump()})
    else:
        for key in found.removed if dry_run else ():
            answer(key)
    done = "no run refers to" if dry_run else "removed"
    say(
        f"{done}: {len(found.removed):,} of {count_of(found.values, 'value')}; {found.histories:,} "
        "histories were read"
    )
