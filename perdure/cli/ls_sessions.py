"""`perdure ls --sessions` and `--waiting`: lists that read each run or session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from temporalio.client import Client, WorkflowExecution
from temporalio.service import RPCError, RPCStatusCode

from ..client import get_run
from ..client import session as session_of
from ..client.connection import server_time
from ..commands import command_line
from ..json_types import JsonObject
from ..protocol.names import SESSION_WORKFLOW
from ..protocol.outcome import RunStatus
from ..protocol.search_attributes import AGENT, STATUS, TENANT, shown_of
from ..protocol.session import SessionStatus
from ..text import one_line, visible
from .ask_person import local_time, waiting_lines
from .console import answer, describe_seconds, in_columns, say
from .filters import Filters, query_explained
from .problems import DONE, UsageProblem, error_text
from .server_connection import connect_to_server

LIST_SECONDS = 4.0
"""The time for reading all that is listed; the list shows everything known by then."""


async def _read_each(
    ids: Iterable[str], read: Callable[[str], Awaitable[Any]]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values that were read in time, by id, and the errors of the others."""
    tasks = {id: asyncio.ensure_future(read(id)) for id in ids}
    if tasks:
        await asyncio.wait(tasks.values(), timeout=LIST_SECONDS)
    values, errors = {}, {}
    for id, task in tasks.items():
        if not task.done():
            task.cancel()
            status = command_line("status", id)
            errors[id] = f"it was not read within {LIST_SECONDS:g} s: {status}"
        elif error := task.exception():  # One unreadable run must not hide the others.
            errors[id] = error_text(error) if isinstance(error, Exception) else str(error)
        else:
            values[id] = task.result()
    return values, errors


async def list_sessions(filters: Filters, limit: int, *, as_json: bool) -> int:
    """Print the sessions, newest first; return the exit code. Raises `RPCError`."""
    query = replace(filters, workflow=SESSION_WORKFLOW).query()
    async with connect_to_server() as server:
        with query_explained(filters):
            found = [each async for each in server.client.list_workflows(query, limit=limit)]
        now = await server_time(server.client) if found else 0.0
        status, _ = await _read_each(
            {each.id for each in found if each.close_time is None},
            lambda id: session_of(server.client, None, id).status(),
        )
        rows = [await _session_row(each, status.get(each.id), now) for each in found]
        place = server.place
    if as_json:
        answer(rows)
    elif not rows:
        say(f"No such sessions on {place}. Begin one: perdure chat AGENT.prompty")
    else:
        columns = ["ID", "AGENT", "STATUS", "TURNS", "STARTED", "AGE"]
        for line in in_columns([columns, *map(_session_cells, rows)]):
            answer(line)
    return DONE


async def _session_row(
    session: WorkflowExecution, status: SessionStatus | None, now: float
) -> JsonObject:
    shown, attributes = await shown_of(session), session.typed_search_attributes
    is_open = session.close_time is None
    return {
        "id": session.id,
        "agent": attributes.get(AGENT) or shown.agent,
        "status": "ended" if not is_open else status.status if status else "running",
        "run": status.run_id if is_open and status else None,
        "turns": status.turn if is_open and status else None,
        "started": shown.started.isoformat(timespec="seconds"),
        "age": round(now - shown.started.timestamp(), 1),
        "taskQueue": session.task_queue,
        "tenant": attributes.get(TENANT),
    }


def _session_cells(row: JsonObject) -> list[str]:
    about = row["run"] or ("for a message" if row["status"] == "waiting" else "")
    status = row["status"] + (f" ({about})" if about else "")
    started = local_time(datetime.fromisoformat(row["started"]).timestamp())
    turns = "" if row["turns"] is None else str(row["turns"])
    agent = visible(one_line(str(row["agent"] or "?")))
    return [row["id"], agent, status, turns, started, describe_seconds(row["age"])]


async def list_waiting(filters: Filters, limit: int, *, as_json: bool) -> int:
    """Print the waiting calls, by run; return the exit code. Raises `RPCError`."""
    if filters.status not in (None, "running", "waiting"):
        raise UsageProblem(
            f"--waiting and --status {filters.status} exclude each other: a run that waits is "
            "running"
        )
    async with connect_to_server() as server:
        with query_explained(filters):
            ids = await _may_wait(server.client, replace(filters, status="running").query(), limit)
        found, errors = await _read_each(ids, lambda id: get_run(server.client, id).status())
        place = server.place
    # A called run's pending calls are listed with that run.
    pending = {
        id: [each for each in status.pending_approvals if each.run_id is None]
        for id, status in found.items()
    }
    waiting = [id for id in ids if pending.get(id) or id in errors][:limit]
    if as_json:
        answer([_waiting_row(id, found.get(id), errors.get(id)) for id in waiting])
        return DONE
    if not waiting:
        say(f"No run on {place} waits for a person.")
    for id in waiting:
        if id in errors:
            answer(f"{id}  can't be read: {one_line(errors[id], 200)}")
            continue
        for line in waiting_lines(id, pending[id]):
            answer(line if line.startswith("  or") else f"{id}  {line}")
        if queue := found[id].queue_without_worker:
            busy = f"the workers of {queue!r} are busy"
            answer(f"  {busy if found[id].workers_are_busy else f'no worker on {queue!r}'}")
    return DONE


def _waiting_row(id: str, status: RunStatus | None, error: str | None) -> JsonObject:
    if status is None:
        return {"id": id, "pending": [], "error": error}
    pending = [each for each in status.pending_approvals if each.run_id is None]
    return {
        "id": id,
        "pending": [each.model_dump(mode="json", by_alias=True) for each in pending],
        "queueWithoutWorker": status.queue_without_worker,
        "workersAreBusy": status.workers_are_busy,
    }


async def _may_wait(client: Client, query: str, limit: int) -> list[str]:
    """Return runs whose status is waiting or held; open runs if the namespace does not know the
    status.
    """
    limit = max(limit, 100)
    exact = f"{query} AND {STATUS.name} IN ('waiting', 'held')"
    try:
        return [run.id async for run in client.list_workflows(exact, limit=limit)]
    except RPCError as error:
        if error.status is not RPCStatusCode.INVALID_ARGUMENT or STATUS.name not in error.message:
            raise
        return [run.id async for run in client.list_workflows(query, limit=limit)]
