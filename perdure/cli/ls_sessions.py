"""`perdure ls --sessions`, `--waiting` and `--totals`: sessions, runs that wait for a person, the
runs' consumption.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any

from temporalio.client import Client, WorkflowExecution
from temporalio.service import RPCError, RPCStatusCode

from ..client import get_run
from ..client.connection import server_time
from ..client.listing import listed_status
from ..commands import command_line, ways_to_decide
from ..declared_tools import needs_gateway
from ..json_types import JsonObject, JsonView
from ..messages import Usage
from ..protocol.names import WORKFLOW
from ..protocol.outcome import RunStatus
from ..protocol.search_attributes import AGENT, ORIGIN, STATUS, TENANT, quote, shown_of
from ..text import count_of, format_usd, one_line, visible
from .ask_person import local_time, times
from .completion import Filters, word_of
from .console import answer, describe_call, describe_seconds, describe_usage, in_columns, say
from .filters import query_explained
from .many import for_each
from .problems import DONE, FAILED, explain
from .server_connection import ServerConnection, connect_to_server, run_under_way


async def list_sessions(server: ServerConnection, query: str, limit: int, *, as_json: bool) -> None:
    """Print the query's sessions, newest first. Raises `RPCError`."""
    found = [each async for each in server.client.list_workflows(query, limit=limit)]
    now = await server_time(server.client) if found else 0.0
    rows = [await _row(server.client, session, now) for session in found]
    if as_json:
        answer(rows)
        return
    if not rows:
        say(f"No such sessions on {server.place}. Begin one: perdure chat AGENT.prompty")
        return
    for line in in_columns(
        [["ID", "AGENT", "STATUS", "TURNS", "STARTED", "AGE"], *map(_cells, rows)]
    ):
        answer(line)


async def _row(client: Client, session: WorkflowExecution, now: float) -> JsonObject:
    run, shown = None, await shown_of(session)
    if session.close_time is None:
        run = run_under_way(
            await client.get_workflow_handle(session.id, run_id=session.run_id).describe()
        )
    return {
        "id": session.id,
        "agent": session.typed_search_attributes.get(AGENT) or shown.agent,
        "status": "ended" if session.close_time else await _status(client, run),
        "run": run,
        "turns": await _turns(client, session),
        "started": shown.started.isoformat(timespec="seconds"),
        "age": round(now - shown.started.timestamp(), 1),
        "taskQueue": session.task_queue,
        "tenant": session.typed_search_attributes.get(TENANT),
        "user": await _in_memo(session, "user"),
    }


async def _in_memo(session: WorkflowExecution, name: str) -> Any:
    """Return a memo field; None also when this process's converter can't decode the memo."""
    try:
        return (await session.memo()).get(name)
    except Exception:
        # A converter may raise any error: one unreadable session must not hide the others.
        return None


async def _status(client: Client, run: str | None) -> str:
    if run is None:
        return "waiting"
    described = await client.get_workflow_handle(run).describe()
    shown = described.typed_search_attributes.get(STATUS)
    return shown if shown in ("waiting", "held") else "running"


async def _turns(client: Client, session: WorkflowExecution) -> int | None:
    """Return the number of its turns: that of its last run. None if the server can't list it.

    A later session of the same id has its own runs.
    """
    query = f"WorkflowType = {quote(WORKFLOW)} AND {ORIGIN.name} = {quote(session.id)}"
    if session.close_time is not None:
        query += f" AND StartTime <= {quote(session.close_time.isoformat())}"
    try:
        # Open runs come first, then the latest end.
        last = [run.id.rpartition("/")[2] async for run in client.list_workflows(query, limit=1)]
    except RPCError as error:
        if error.status is not RPCStatusCode.INVALID_ARGUMENT:
            raise
        return None
    return int(last[0]) if last and last[0].isdecimal() else 0


def _cells(row: JsonObject) -> list[str]:
    about = row["run"] or ("for a message" if row["status"] == "waiting" else "")
    status = row["status"] + (f" ({about})" if about else "")
    started = local_time(datetime.fromisoformat(row["started"]).timestamp())
    turns = "" if row["turns"] is None else str(row["turns"])
    agent = visible(one_line(str(row["agent"] or "?")))
    return [row["id"], agent, status, turns, started, describe_seconds(row["age"])]


AT_ONCE, LIST_SECONDS = 100, 4.0
"""The number of runs read concurrently, and the time limit for all; the list shows everything known
by then."""


async def list_waiting(server: ServerConnection, query: str, limit: int, *, as_json: bool) -> None:
    """Print the waiting calls, by run, newest run first; `query` selects the open runs.

    Raises `RPCError`, also for a query that the server refuses.
    """
    rows = await _rows(server.client, query, limit)
    if as_json:
        answer(rows)
        return
    if not rows:
        say(f"No run on {server.place} waits for a person.")
    for row in rows:
        if "error" in row:
            answer(f"{row['id']}  can't be read: {one_line(row['error'], 200)}")
        for pending in row["pending"]:
            how, *others = _ways(row, pending)
            answer(_line(row, pending, how))
            for other in others:
                answer(f"  or {other}")


async def _rows(client: Client, query: str, limit: int) -> list[JsonObject]:
    """Return a row for each run that waits, or can't be read, in the list's order, within one time
    limit.
    """
    rows: list[JsonObject] = []
    end = asyncio.get_running_loop().time() + LIST_SECONDS
    async for ids in _batches(_candidates(client, query), min(limit, AT_ONCE)):
        asked = {id: asyncio.create_task(_waiting_row(client, id)) for id in ids}
        await asyncio.wait(
            asked.values(), timeout=max(0.0, end - asyncio.get_running_loop().time())
        )
        for id, task in asked.items():
            if not task.done():
                task.cancel()
            if row := (
                task.result() if task.done() else {"id": id, "pending": [], "error": _late(id)}
            ):
                rows.append(row)
        if len(rows) >= limit:
            break
    return rows[:limit]


def _late(id: str) -> str:
    return f"it was not read within {LIST_SECONDS:g} s: {command_line('status', id)}"


async def _batches(ids: AsyncIterator[str], size: int) -> AsyncIterator[list[str]]:
    batch: list[str] = []
    async for id in ids:
        batch.append(id)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


async def _waiting_row(client: Client, id: str) -> JsonObject | None:
    try:
        status = await get_run(client, id).status()
    except Exception as error:
        # A reader may raise any error: one unreadable run must not hide the others.
        text = (
            explained.text if (explained := explain(error)) else f"{type(error).__name__}: {error}"
        )
        return {"id": id, "pending": [], "error": text}
    # A called run's pending calls are listed with that run.
    pending = [each for each in status.pending_approvals if each.run_id is None]
    if not pending:
        return None
    return {
        "id": id,
        "pending": [each.model_dump(mode="json", by_alias=True) for each in pending],
        "queueWithoutWorker": status.queue_without_worker,
        "workersAreBusy": status.workers_are_busy,
    }


async def _candidates(client: Client, query: str) -> AsyncIterator[str]:
    """Yield the runs whose status is waiting; all open runs if the namespace does not know the
    status.
    """
    try:
        async for run in client.list_workflows(f"{query} AND {STATUS.name} IN ('waiting', 'held')"):
            yield run.id
    except RPCError as error:
        if error.status is not RPCStatusCode.INVALID_ARGUMENT or STATUS.name not in error.message:
            raise
        async for run in client.list_workflows(query):
            yield run.id


def _line(row: JsonObject, pending: JsonObject, how: str) -> str:
    call = describe_call(pending["name"], pending["arguments"])
    queue = row["queueWithoutWorker"]
    missed = (
        f", the workers of {queue!r} are busy"
        if row["workersAreBusy"]
        else f", no worker on {queue!r}"
    )
    return f"{row['id']}  {call}  {times(pending)}{missed if queue else ''}: {how}"


def _ways(row: JsonObject, pending: JsonObject) -> tuple[str, ...]:
    named = (row["id"], pending["call_id"], pending["digest"])
    return ways_to_decide(
        *named, kind=pending["kind"], needs_gateway=needs_gateway(pending.get("approvers"))
    )


async def sum_up(filters: Filters, *, as_json: bool) -> int:
    """Print the total consumption of the filtered runs; return the exit code, 1 if some can't be
    read.

    A called run counts with its caller if the filters find the caller too. Raises `RPCError`.
    """
    async with connect_to_server() as server:
        with query_explained(filters):
            found = {run.id: run async for run in server.client.list_workflows(filters.query())}
        alone = [id for id, run in found.items() if run.parent_id not in found]
        now = datetime.fromtimestamp(await server_time(server.client), UTC)
        used: list[RunStatus] = []

        async def read(id: str) -> None:
            used.append(await get_run(server.client, id).status())

        report = await for_each(alone, read)
    begun = {id: (await shown_of(found[id])).started for id in alone}
    seconds = sum(
        (((found[id].close_time or now) - begun[id]).total_seconds() for id in alone), 0.0
    )
    usage = sum((each.usage for each in used), Usage())
    sums = {
        "runs": len(found),
        "byStatus": dict(Counter(map(_shown_status, found.values()))),
        "modelCalls": sum(each.model_calls for each in used),
        "usage": usage.model_dump(mode="json"),
        "costUsd": sum(each.cost_usd or 0.0 for each in used),
        "unpricedCalls": sum(each.unpriced_calls for each in used),
        "seconds": round(seconds, 1),
        "failed": report.failed,
    }
    if as_json:
        answer(sums)
    else:
        for line in _lines_of(sums, usage):
            answer(line)
    for each in report.failed:
        say(
            f"{each['id']} can't be read, and is not in the sums: {one_line(each['error'], 200)}",
            "bad",
        )
    return FAILED if report.failed else DONE


def _shown_status(run: WorkflowExecution) -> str:
    """Return the run's status as the list shows it: a held or waiting run does not count as
    running.
    """
    status = listed_status(run)
    return status if status in ("held", "waiting") else word_of(run.status)


def _lines_of(sums: JsonView, usage: Usage) -> Iterator[str]:
    statuses = ", ".join(f"{count:,} {word}" for word, count in sums["byStatus"].items())
    yield f"runs     {sums['runs']:,}" + (f" ({statuses})" if statuses else "")
    yield (
        f"usage    {count_of(sums['modelCalls'], 'model call')}, "
        f"{describe_usage(usage.model_dump())}"
    )
    yield f"cost     {format_usd(sums['costUsd'], unpriced=sums['unpricedCalls']) or 'not known'}"
    yield f"time     {describe_seconds(sums['seconds'])}"
