"""`perdure ls`: list the runs of the server, newest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from temporalio.client import WorkflowExecution

from ..client.connection import server_time
from ..client.listing import listed_status, newest_runs
from ..commands import command_line
from ..json_types import JsonObject
from ..payloads.encryption.codec import key_id_of
from ..protocol.search_attributes import AGENT, COST, ORIGIN, SESSION, TENANT, ShownRun, shown_of
from ..text import count_of, format_usd, one_line, visible
from .console import answer, describe_seconds, in_columns, say
from .filters import Filters, filters_of, query_explained, word_of
from .given import Given
from .problems import DONE
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


async def ls(given: Given) -> int:
    """Print the list; return the exit code."""
    filters = filters_of(given)
    if given.sessions or given.waiting:
        from . import ls_sessions as lists  # reads runs, for which most lists need no models

        if given.sessions:
            return await lists.list_sessions(filters, given.limit, as_json=given.as_json)
        return await lists.list_waiting(filters, given.limit, as_json=given.as_json)
    return await _list(filters, given.limit, as_json=given.as_json)


async def _list(filters: Filters, limit: int, *, as_json: bool) -> int:
    async with connect_to_server() as server:
        with query_explained(filters):
            runs = await newest_runs(server.client, filters.query(), limit)
        shown = [await shown_of(run) for run in runs]
        now = await server_time(server.client) if runs else 0.0
        rows = [
            row_of(run, each, await read_memo(run), datetime.fromtimestamp(now, UTC))
            for run, each in zip(runs, shown, strict=True)
        ]
        await _note_missing_workers(server, rows, now)
        place = server.place
    mention_unread(
        [key_of(run) for run, each in zip(runs, shown, strict=True) if each.agent is None]
    )
    if as_json:
        answer(rows)
        return DONE
    if not rows:
        found = "No such runs" if filters != Filters() else "No runs"
        say(f"{found} on {place}. Start one: perdure run AGENT.prompty")
        return DONE
    columns = ["ID", "AGENT", "STATUS", "STARTED", "AGE", "DURATION", "COST"]
    for line in in_columns([columns, *map(_cells, rows)]):
        answer(line)
    return DONE


def row_of(run: WorkflowExecution, shown: ShownRun, memo: CommandMemo, now: datetime) -> JsonObject:
    """Return the run as JSON; `now` is the server's time."""
    attributes, is_open = run.typed_search_attributes, run.close_time is None
    status = listed_status(run)
    resume = command_line("resume", run.id) if memo.has_code and is_open else None
    return {
        "id": run.id,
        "agent": shown.agent if shown.agent is not None else attributes.get(AGENT, "?"),
        "status": word_of(run.status),
        "waiting": status == "waiting",
        "held": status == "held",
        "encryptedWith": key_of(run) if shown.agent is None else None,
        "started": shown.started.isoformat(timespec="seconds"),
        "taskQueue": run.task_queue,
        "resume": resume,
        "seconds": round(((run.close_time or now) - shown.started).total_seconds(), 1),
        "age": round((now - shown.started).total_seconds(), 1),
        "costUsd": None if is_open else attributes.get(COST),
        "tenant": attributes.get(TENANT),
        "session": attributes.get(SESSION),
        "origin": attributes.get(ORIGIN),
    }


async def _note_missing_workers(
    server: ServerConnection, rows: list[JsonObject], now: float
) -> None:
    """Add the task queue to the rows of open runs if no worker polls it; check each queue once."""
    queues = {row["taskQueue"] for row in rows if row["status"] == "running"}
    missing = {queue for queue in queues if not await server.is_polled(queue, now=now)}
    for row in rows:
        is_missed = row["status"] == "running" and row["taskQueue"] in missing
        row["queueWithoutWorker"] = row["taskQueue"] if is_missed else None


def _cells(row: JsonObject) -> list[str]:
    started = datetime.fromisoformat(row["started"]).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    missing = row["queueWithoutWorker"]
    status = "held" if row["held"] else "waiting" if row["waiting"] else row["status"]
    status += f", encrypted (key {row['encryptedWith']})" if row["encryptedWith"] else ""
    status += f", no worker on {missing!r}" if missing else ""
    status += f": {row['resume']}" if missing and row["resume"] else ""
    agent, age = visible(one_line(row["agent"])), describe_age(row["age"])
    duration = str(timedelta(seconds=round(row["seconds"])))
    return [row["id"], agent, status, started, age, duration, format_usd(row["costUsd"] or None)]


def describe_age(seconds: float) -> str:
    """Return an age in its largest unit, such as `3 d`."""
    return (
        " ".join(describe_seconds(max(round(seconds), 10)).split()[:2]) if seconds >= 10 else "now"
    )
