"""Acts on many runs at once: filters, a confirmation, progress, and a report of failures."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import click

from ..text import count_of, one_line
from .console import answer, say
from .filters import Filters, filters_of, query_explained
from .given import Given
from .problems import DONE, FAILED, UsageProblem, error_text
from .recorded_run import find_run
from .server_connection import ServerConnection

AT_ONCE = 40
"""The number of runs handled concurrently. The server's batch operations handle about 50 a second,
and do not report which ones failed.
"""
PROGRESS_SECONDS = 1.0
SHOWN = 20
"""The number of failed runs shown to people; JSON has all."""


@dataclass(frozen=True)
class RunSelection:
    """The runs that a command acts on: by id, or by filters."""

    ids: Sequence[str]
    filters: Filters
    at_most: int | None = None
    dry_run: bool = False

    @property
    def is_one(self) -> bool:
        """Whether it is one run, by its id."""
        return len(self.ids) == 1 and not self.dry_run

    def require_few(self, count: int) -> None:
        """Raises `UsageProblem` for more runs than --at-most allows."""
        if self.at_most is not None and count > self.at_most:
            raise UsageProblem(
                f"the filters find {count_of(count, 'run')}, expected at most {self.at_most:,} "
                "(--at-most)"
            )


def selection_of(given: Given) -> RunSelection:
    """Return the command line's selection. Raises `UsageProblem` for an empty one, and for both ids
    and filters.
    """
    filters = filters_of(given)
    is_filtered = filters != Filters() or given.all
    if not (given.id or is_filtered):
        raise UsageProblem(
            "expected the id of a run, or filters such as --agent NAME: perdure "
            f"{given.command} --help"
        )
    if given.id and is_filtered:
        raise UsageProblem(
            f"ids and filters exclude each other, got {', '.join(map(repr, given.id[:5]))} and "
            "filters"
        )
    return RunSelection(given.id, filters, given.at_most, given.dry_run)


@dataclass
class Report:
    """The outcome."""

    done: list[str] = field(default_factory=list)
    failed: list[dict[str, str]] = field(default_factory=list)


async def selected_ids(
    server: ServerConnection, selection: RunSelection, status: str | None = None
) -> list[str]:
    """Return the ids of the runs, newest first; with filters, those of that status by default.

    Raises `Failure` for an unknown id, and `UsageProblem` for too many.
    """
    if selection.ids:
        return [(await find_run(server, id)).id for id in selection.ids]
    filters = replace(selection.filters, status=selection.filters.status or status)
    with query_explained(filters):
        ids = [run.id async for run in server.client.list_workflows(filters.query())]
    selection.require_few(len(ids))
    return ids


def show_dry_run(name: str, ids: Sequence[str], as_json: bool) -> int:
    """Print the selected runs; return the exit code."""
    if as_json:
        answer({"action": name, "dryRun": True, "count": len(ids), "ids": list(ids)})
    else:
        for id in ids:
            answer(id)
    say(f"{count_of(len(ids), 'run')}; nothing was done (--dry-run)")
    return DONE


async def require_yes(question: str, name: str) -> None:
    """Ask on a terminal. Raises `UsageProblem` for any other answer than yes, and without a
    terminal.
    """
    if not sys.stdin.isatty():
        raise UsageProblem(
            f"{question} Expected --yes, or --dry-run to see them: perdure {name} … --yes"
        )
    if not await asyncio.to_thread(click.confirm, question, err=True):
        raise UsageProblem("nothing was done")


async def for_each(ids: Sequence[str], do: Callable[[str], Awaitable[Any]]) -> Report:
    """Act on all of them, several at a time, and report progress on stderr."""
    report, left = Report(), iter(ids)
    shown = time.monotonic()

    async def work() -> None:
        nonlocal shown
        for id in left:
            try:
                await do(id)
                report.done.append(id)
            except Exception as error:
                # One failure must not stop the rest; the report has each.
                report.failed.append({"id": id, "error": error_text(error)})
            if time.monotonic() - shown > PROGRESS_SECONDS:
                shown = time.monotonic()
                count = len(report.done) + len(report.failed)
                say(f"{count:,} of {count_of(len(ids), 'run')}", "faint")

    await asyncio.gather(*(work() for _ in range(min(AT_ONCE, len(ids)))))
    return report


def show_report(name: str, done: str, report: Report, as_json: bool, **more: Any) -> int:
    """Print the outcome, and return the exit code."""
    if as_json:
        counted = {"count": len(report.done), "done": report.done, "failed": report.failed}
        answer({"action": name, **more, **counted})
    total = len(report.done) + len(report.failed)
    say(f"{done}: {len(report.done):,} of {count_of(total, 'run')}" if total else "No such runs")
    for each in report.failed[:SHOWN]:
        say(f"  {each['id']}: {one_line(each['error'], 300)}", "bad")
    if len(report.failed) > SHOWN:
        say(f"  and {len(report.failed) - SHOWN:,} more, which --json has", "bad")
    return FAILED if report.failed else DONE
