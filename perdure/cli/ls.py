"""`perdure ls`: list the runs of the server, newest first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..excerpt import counted
from . import options
from .console import answer, say
from .problems import UsageProblem
from .recorded import CommandMemo, read_memo
from .running import execute
from .session import open_session
from .task_queue import resume_command
from .waiting_runs import list_waiting

if TYPE_CHECKING:
    from temporalio.client import Client, WorkflowExecution

Status = Literal["running", "completed", "failed", "cancelled", "terminated", "timed-out"]

_EXECUTION_STATUS: dict[str, str] = {
    "running": "Running",
    "completed": "Completed",
    "failed": "Failed",
    "cancelled": "Canceled",
    "terminated": "Terminated",
    "timed-out": "TimedOut",
}


def ls(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most this many.")] = 20,
    status: Annotated[Status | None, typer.Option(help="Only runs with this status.")] = None,
    waiting: Annotated[
        bool, typer.Option("--waiting", help="Only runs that wait for a person, with what they wait for.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """List runs, newest first."""
    execute((_list_waiting if waiting else _list)(limit, status, as_json))


async def _list_waiting(limit: int, status: Status | None, as_json: bool) -> None:
    if status not in (None, "running"):
        raise UsageProblem(f"--waiting and --status {status} exclude each other: a run that waits is running")
    async with open_session() as session:
        await list_waiting(session, limit, as_json=as_json)


async def _list(limit: int, status: Status | None, as_json: bool) -> None:
    from ..protocol.names import WORKFLOW

    query = f"WorkflowType = '{WORKFLOW}'" + (f" AND ExecutionStatus = '{_EXECUTION_STATUS[status]}'" if status else "")
    async with open_session() as session:
        runs = [run async for run in session.client.list_workflows(query, limit=limit)]
        names = [await _agent_in_memo(run) for run in runs]
        memos = [await read_memo(run) for run in runs]
        rows = [_row(run, name, memo) for run, name, memo in zip(runs, names, memos, strict=True)]
        await _note_missing_workers(session.client, rows)
        place = session.place
    if unread := names.count(None):
        say(
            f"{counted(unread, 'run')} can't be read: encrypted, or another program made them. "
            "Their agents are what the search attributes say.",
            "faint",
        )
    if as_json:
        answer(rows)
        return
    if not rows:
        say(f"No runs on {place}. Start one: perdure run AGENT.prompty")
    for line in _table(rows):
        answer(line)


async def _agent_in_memo(run: WorkflowExecution) -> str | None:
    """The agent's name; None when the memo can't be decoded with this process's converter."""
    try:
        return str((await run.memo()).get("agent", ""))
    except Exception:
        # Whatever a converter raises: one run that can't be read must not hide the others.
        return None


def _row(run: WorkflowExecution, agent: str | None, memo: CommandMemo) -> dict[str, Any]:
    from ..protocol.search_attributes import AGENT

    words = {value: word for word, value in _EXECUTION_STATUS.items()}
    name = run.status.name.title().replace("_", "") if run.status else ""
    end = run.close_time or datetime.now(UTC)
    return {
        "id": run.id,
        "agent": agent if agent is not None else run.typed_search_attributes.get(AGENT, "?"),
        "status": words.get(name, name.lower()),
        "started": run.start_time.isoformat(timespec="seconds"),
        "taskQueue": run.task_queue,
        "resume": resume_command(run.id) if memo.has_code and run.close_time is None else None,
        "seconds": round((end - run.start_time).total_seconds(), 1),
    }


async def _note_missing_workers(client: Client, rows: list[dict[str, Any]]) -> None:
    """Into the rows of open runs: the task queue, if no worker polls it. Each queue is asked about once."""
    from ..client.task_queues import somebody_polls

    queues = {row["taskQueue"] for row in rows if row["status"] == "running"}
    polled = {queue: await somebody_polls(client, queue) for queue in queues}
    for row in rows:
        row["queueWithoutWorker"] = None if polled.get(row["taskQueue"], True) else row["taskQueue"]


def _table(rows: list[dict[str, Any]]) -> list[str]:
    """The rows as lines of aligned text, times in local time; no lines without rows."""
    cells = [["ID", "AGENT", "STATUS", "STARTED", "DURATION"]] if rows else []
    for row in rows:
        started = datetime.fromisoformat(row["started"]).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        duration = str(timedelta(seconds=round(row["seconds"])))
        missing = row["queueWithoutWorker"]
        status = f"{row['status']}, no worker on {missing!r}" if missing else row["status"]
        status += f": {row['resume']}" if missing and row["resume"] else ""
        cells.append([row["id"], row["agent"], status, started, duration])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
