"""`perdure ls`: list the runs of the server, newest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

import typer
from temporalio.client import WorkflowExecution

from ..client.connection import server_time
from ..client.listing import newest_runs
from ..commands import command_line
from ..json_types import JsonObject
from ..payloads.encryption import EncryptionError
from ..payloads.encryption.codec import key_id_of
from ..protocol.names import SESSION_WORKFLOW
from ..protocol.search_attributes import (
    AGENT,
    COST,
    ORIGIN,
    SESSION,
    STATUS,
    TENANT,
    ShownRun,
    shown_of,
)
from ..text import count_of, format_usd, one_line, visible
from . import shared_options as options
from .command import execute, use_command_class
from .completion import Filters, word_of
from .console import answer, describe_seconds, in_columns, say
from .filters import ListCommand, chosen_filters, query_explained
from .problems import UsageProblem
from .server_connection import CommandMemo, ServerConnection, connect_to_server, read_memo


def key_of(run: WorkflowExecution) -> str | None:
    """Return the id of the key that encrypts the run's memo; None if perdure did not encrypt it."""
    return next(
        (id for payload in run.raw_info.memo.fields.values() if (id := key_id_of(payload))), None
    )


def mention_unread(keys: Sequence[str | None]) -> None:
    """Report how many listed runs can't be read, and which keys are missing."""
    for key, count in Counter(keys).items():
        why = (
            f"encrypted (key {key}): PERDURE_ENCRYPTION_KEY lacks it here"
            if key
            else "another program made them"
        )
        say(
            f"{count_of(count, 'run')} can't be read: {why}. Their agents are those of the search "
            "attributes.",
            "faint",
        )


async def tell_encrypted(
    server: ServerConnection, run_id: str, error: EncryptionError, *, as_json: bool = False
) -> None:
    """Print the readable parts of an encrypted run, and name the missing key."""
    run = await server.client.get_workflow_handle(run_id).describe()
    attributes = {pair.key.name: pair.value for pair in run.typed_search_attributes}
    shown: JsonObject = {
        "id": run.id,
        "status": run.status.name.lower() if run.status else "",
        "encryptedWith": error.key_id,
        "started": run.start_time.isoformat(timespec="seconds"),
        "closed": run.close_time.isoformat(timespec="seconds") if run.close_time else None,
        "taskQueue": run.task_queue,
        "searchAttributes": {
            name: value for name, value in attributes.items() if name.startswith("Perdure")
        },
    }
    say(str(error), "faint")
    if as_json:
        answer(shown)
        return
    answer(f"{shown['status']}, encrypted (key {error.key_id})")
    answer(f"started {shown['started']}" + (f", ended {shown['closed']}" if run.close_time else ""))
    answer(f"task queue {run.task_queue!r}")
    for name, value in shown["searchAttributes"].items():
        answer(f"{name}: {value}")


@use_command_class(ListCommand)
def ls(
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most this many.")] = 20,
    waiting: Annotated[
        bool,
        typer.Option("--waiting", help="Only runs that wait for a person, with their requests."),
    ] = False,
    sessions: Annotated[bool, typer.Option("--sessions", help="Sessions instead of runs.")] = False,
    totals: Annotated[
        bool, typer.Option("--totals", help="Totals instead of a list: tokens, cost, time.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """List runs; the latest start or end comes first.

    The list lags by a second or so. Filters by agent, tenant, session, origin, cost and the status
    waiting or held need search attributes that `perdure setup` registers.
    """
    filters = chosen_filters(context)
    if totals or sessions or waiting:
        execute(
            _list_other(
                "totals" if totals else "sessions" if sessions else "waiting",
                limit,
                filters,
                as_json,
            )
        )
    else:
        execute(_list(limit, filters, as_json))


async def _list_other(
    what: Literal["sessions", "waiting", "totals"], limit: int, filters: Filters, as_json: bool
) -> int:
    from . import ls_sessions as lists  # reads runs, for which most lists need no models

    if what == "totals":
        return await lists.sum_up(filters, as_json=as_json)
    if what == "waiting" and filters.status not in (None, "running", "waiting"):
        raise UsageProblem(
            f"--waiting and --status {filters.status} exclude each other: a run that waits is "
            "running"
        )
    change: JsonObject = (
        {"status": "running"} if what == "waiting" else {"workflow": SESSION_WORKFLOW}
    )
    query = replace(filters, **change).query()
    async with connect_to_server() as server:
        with query_explained(filters):
            await (lists.list_waiting if what == "waiting" else lists.list_sessions)(
                server, query, limit, as_json=as_json
            )
    return 0


async def _list(limit: int, filters: Filters, as_json: bool) -> None:
    query = filters.query()
    async with connect_to_server() as server:
        with query_explained(filters):
            runs = await newest_runs(server.client, query, limit)
        shown = [await shown_of(run) for run in runs]
        memos = [await read_memo(run) for run in runs]
        now = await _server_time(server, runs)
        rows = [row_of(*each, now) for each in zip(runs, shown, memos, strict=True)]
        await _note_missing_workers(server, rows, now)
        place = server.place
    mention_unread(
        [key_of(run) for run, each in zip(runs, shown, strict=True) if each.agent is None]
    )
    if as_json:
        answer(rows)
        return
    if not rows:
        found = "No such runs" if filters != Filters() else "No runs"
        say(f"{found} on {place}. Start one: perdure run AGENT.prompty")
    for line in _table(rows):
        answer(line)


async def _server_time(server: ServerConnection, found: Collection[WorkflowExecution]) -> datetime:
    """Return the time from which ages are computed; the server is asked only if there is an age to
    show.
    """
    return (
        datetime.fromtimestamp(await server_time(server.client), UTC)
        if found
        else datetime.now(UTC)
    )


def row_of(run: WorkflowExecution, shown: ShownRun, memo: CommandMemo, now: datetime) -> JsonObject:
    """Return the run as JSON; `now` is the server's time."""
    end = run.close_time or now
    attributes = run.typed_search_attributes
    return {
        "id": run.id,
        "agent": shown.agent if shown.agent is not None else attributes.get(AGENT, "?"),
        "status": word_of(run.status),
        "waiting": run.close_time is None and attributes.get(STATUS) == "waiting",
        "held": run.close_time is None and attributes.get(STATUS) == "held",
        "encryptedWith": key_of(run) if shown.agent is None else None,
        "started": shown.started.isoformat(timespec="seconds"),
        "taskQueue": run.task_queue,
        "resume": command_line("resume", run.id)
        if memo.has_code and run.close_time is None
        else None,
        "seconds": round((end - shown.started).total_seconds(), 1),
        "age": round((now - shown.started).total_seconds(), 1),
        "costUsd": attributes.get(COST) if run.close_time else None,
        "tenant": attributes.get(TENANT),
        "session": attributes.get(SESSION),
        "origin": attributes.get(ORIGIN),
    }


async def _note_missing_workers(
    server: ServerConnection, rows: list[JsonObject], now: datetime
) -> None:
    """Add the task queue to the rows of open runs if no worker polls it; check each queue once."""
    queues = {row["taskQueue"] for row in rows if row["status"] == "running"}
    polled = {queue: await server.is_polled(queue, now=now.timestamp()) for queue in queues}
    for row in rows:
        is_missed = row["status"] == "running" and not polled[row["taskQueue"]]
        row["queueWithoutWorker"] = row["taskQueue"] if is_missed else None


def _table(rows: list[JsonObject]) -> list[str]:
    """Return the rows as lines of aligned text, times in local time; no lines without rows."""
    cells = [["ID", "AGENT", "STATUS", "STARTED", "AGE", "DURATION", "COST"]] if rows else []
    cells += [_cells(row) for row in rows]
    return in_columns(cells)


def _cells(row: JsonObject) -> list[str]:
    started = datetime.fromisoformat(row["started"]).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    missing = row["queueWithoutWorker"]
    status = "held" if row["held"] else "waiting" if row["waiting"] else row["status"]
    status += f", encrypted (key {row['encryptedWith']})" if row["encryptedWith"] else ""
    status += f", no worker on {missing!r}" if missing else ""
    status += f": {row['resume']}" if missing and row["resume"] else ""
    duration = str(timedelta(seconds=round(row["seconds"])))
    agent = visible(one_line(row["agent"]))
    return [
        row["id"],
        agent,
        status,
        started,
        describe_age(row["age"]),
        duration,
        format_usd(row["costUsd"] or None),
    ]


def describe_age(seconds: float) -> str:
    """Return an age in its largest unit, such as `3 d`."""
    return (
        " ".join(describe_seconds(max(round(seconds), 10)).split()[:2]) if seconds >= 10 else "now"
    )
