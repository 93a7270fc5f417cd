"""Lists the runs that wait for a person, with what they wait for: `perdure ls --waiting`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from ..decision_commands import decision_command, denial_command
from ..excerpt import one_line
from .approvals import times
from .console import answer, describe_call, say
from .problems import explain
from .session import Session

if TYPE_CHECKING:
    from temporalio.client import Client


AT_ONCE = 20
"""So many runs are asked at the same time."""


async def list_waiting(session: Session, query: str, limit: int, *, as_json: bool) -> None:
    """Print the calls that wait, by run, those of the newest run first; `query` says which open runs are asked.

    Raises `RPCError`, also for a query that the server does not take.
    """
    rows = await _rows(session.client, query, limit)
    if as_json:
        answer(rows)
        return
    if not rows:
        say(f"No run on {session.place} waits for a person.")
    for row in rows:
        if "error" in row:
            answer(f"{row['id']}  can't be read: {one_line(row['error'], 200)}")
        for pending in row["pending"]:
            answer(_line(row, pending))
            answer(f"  or {denial_command(*_named(row, pending))}")


async def _rows(client: Client, query: str, limit: int) -> list[dict[str, Any]]:
    """A row for each run that waits, or can't be read; several are asked at once, in the order of the list."""
    rows: list[dict[str, Any]] = []
    async for ids in _batches(_candidates(client, query)):
        rows += [row for row in await asyncio.gather(*(_row(client, id) for id in ids)) if row]
        if len(rows) >= limit:
            break
    return rows[:limit]


async def _batches(ids: AsyncIterator[str]) -> AsyncIterator[list[str]]:
    batch: list[str] = []
    async for id in ids:
        batch.append(id)
        if len(batch) == AT_ONCE:
            yield batch
            batch = []
    yield batch


async def _row(client: Client, id: str) -> dict[str, Any] | None:
    from ..client import get_run

    try:
        status = await get_run(client, id).status()
    except Exception as error:
        # Whatever a reader raises: one run that can't be read must not hide the others.
        text = explained.text if (explained := explain(error)) else f"{type(error).__name__}: {error}"
        return {"id": id, "pending": [], "error": text}
    # What waits in a called run is listed with that run.
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
    """The runs whose status says that they wait; where the namespace does not know the status, all open runs."""
    from temporalio.service import RPCError, RPCStatusCode

    from ..protocol.search_attributes import STATUS

    try:
        async for run in client.list_workflows(f"{query} AND {STATUS.name} = 'waiting'"):
            yield run.id
    except RPCError as error:
        if error.status is not RPCStatusCode.INVALID_ARGUMENT or STATUS.name not in error.message:
            raise
        async for run in client.list_workflows(query):
            yield run.id


def _line(row: dict[str, Any], pending: dict[str, Any]) -> str:
    call = describe_call(pending["name"], pending["arguments"])
    how = decision_command(*_named(row, pending), kind=pending["kind"])
    queue = row["queueWithoutWorker"]
    missed = f", the workers of {queue!r} are busy" if row["workersAreBusy"] else f", no worker on {queue!r}"
    return f"{row['id']}  {call}  {times(pending)}{missed if queue else ''}: {how}"


def _named(row: dict[str, Any], pending: dict[str, Any]) -> tuple[str, str, str | None]:
    return row["id"], pending["call_id"], pending["digest"]
