"""`perdure sweep`: delete unreferenced values from the storage."""

from __future__ import annotations

from datetime import UTC, datetime

from ..client.deletion import HOUR_SECONDS, sweep_storage
from ..text import count_of
from .console import answer, say
from .filters import moment_of
from .given import Given
from .many import require_yes
from .problems import UsageProblem
from .server_connection import connect_to_server


async def sweep(given: Given) -> None:
    """Delete the values, after a question, or print their keys."""
    older_than, shared = _seconds(given.older_than), given.shared
    async with connect_to_server() as server:
        found = await sweep_storage(
            server.client, older_than=older_than, shared=shared, dry_run=True
        )
        if found.removed and not given.dry_run:
            if not given.yes:
                place = f"the namespace {server.client.namespace!r} of {server.place}"
                count = count_of(len(found.removed), "value")
                await require_yes(f"Delete {count} to which nothing in {place} refers?", "sweep")
            found = await sweep_storage(server.client, older_than=older_than, shared=shared)
    if given.as_json:
        answer({"action": "sweep", "dryRun": given.dry_run, **found.model_dump()})
    else:
        for key in found.removed if given.dry_run else ():
            answer(key)
    done = "unreferenced" if given.dry_run else "removed"
    count = f"{len(found.removed):,} of {count_of(found.values, 'value')}"
    say(f"{done}: {count}; {found.histories:,} histories were read")


def _seconds(older_than: str) -> float:
    seconds = (datetime.now(UTC) - moment_of("--older-than", older_than)).total_seconds()
    if seconds < HOUR_SECONDS - 1:
        raise UsageProblem(
            f"--older-than {older_than!r}: expected 1h at least: a younger value may be on its way"
        )
    return max(seconds, HOUR_SECONDS)
