"""Lists the sessions of the server: `perdure ls --sessions`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..excerpt import one_line, visible
from .approvals import local_time
from .columns import in_columns
from .console import answer, describe_seconds, say
from .session import Session
from .turns import run_under_way

if TYPE_CHECKING:
    from temporalio.client import Client, WorkflowExecution


async def list_sessions(server: Session, query: str, limit: int, *, as_json: bool) -> None:
    """Print the sessions that the query finds, the newest first. Raises `RPCError`."""
    from ..client.server_clock import server_time

    found = [each async for each in server.client.list_workflows(query, limit=limit)]
    now = await server_time(server.client) if found else 0.0
    rows = [await _row(server.client, session, now) for session in found]
    if as_json:
        answer(rows)
        return
    if not rows:
        say(f"No such sessions on {server.place}. Begin one: perdure chat AGENT.prompty")
        return
    for line in in_columns([["ID", "AGENT", "STATUS", "TURNS", "STARTED", "AGE"], *map(_cells, rows)]):
        answer(line)


async def _row(client: Client, session: WorkflowExecution, now: float) -> dict[str, Any]:
    from ..protocol.search_attributes import AGENT, TENANT

    run = None
    if session.close_time is None:
        run = run_under_way(await client.get_workflow_handle(session.id, run_id=session.run_id).describe())
    return {
        "id": session.id,
        "agent": session.typed_search_attributes.get(AGENT) or await _in_memo(session, "agent"),
        "status": "closed" if session.close_time else await _status(client, run),
        "run": run,
        "turns": await _turns(client, session),
        "started": session.start_time.isoformat(timespec="seconds"),
        "age": round(now - session.start_time.timestamp(), 1),
        "taskQueue": session.task_queue,
        "tenant": session.typed_search_attributes.get(TENANT),
        "user": await _in_memo(session, "user"),
    }


async def _in_memo(session: WorkflowExecution, name: str) -> Any:
    """None also when the memo can't be decoded with this process's converter."""
    try:
        return (await session.memo()).get(name)
    except Exception:
        # Whatever a converter raises: one session that can't be read must not hide the others.
        return None


async def _status(client: Client, run: str | None) -> str:
    from ..protocol.search_attributes import STATUS

    if run is None:
        return "idle"
    described = await client.get_workflow_handle(run).describe()
    return "waiting" if described.typed_search_attributes.get(STATUS) == "waiting" else "running"


async def _turns(client: Client, session: WorkflowExecution) -> int | None:
    """How many turns it has had: the number of its last run. None where the server can't tell.

    A session of the same id that has begun later has runs of its own.
    """
    from temporalio.service import RPCError, RPCStatusCode

    from ..protocol.names import WORKFLOW
    from ..protocol.search_attributes import ORIGIN, quoted

    query = f"WorkflowType = {quoted(WORKFLOW)} AND {ORIGIN.name} = {quoted(session.id)}"
    if session.close_time is not None:
        query += f" AND StartTime <= {quoted(session.close_time.isoformat())}"
    try:
        # What is under way comes first, then what has ended last.
        last = [run.id.rpartition("/")[2] async for run in client.list_workflows(query, limit=1)]
    except RPCError as error:
        if error.status is not RPCStatusCode.INVALID_ARGUMENT:
            raise
        return None
    return int(last[0]) if last and last[0].isdecimal() else 0


def _cells(row: dict[str, Any]) -> list[str]:
    status = row["status"] + (f" ({row['run']})" if row["run"] else "")
    started = local_time(datetime.fromisoformat(row["started"]).timestamp())
    turns = "" if row["turns"] is None else str(row["turns"])
    agent = visible(one_line(str(row["agent"] or "?")))
    return [row["id"], agent, status, turns, started, describe_seconds(row["age"])]
