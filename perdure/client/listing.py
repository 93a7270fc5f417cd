"""Lists runs through the server, without contacting the runs themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, cast

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus

from ..protocol.names import WORKFLOW
from ..protocol.search_attributes import AGENT, COST, ORIGIN, SESSION, STATUS, TENANT, shown_of

ListedStatus = Literal[
    "running", "waiting", "held", "done", "failed", "cancelled", "terminated", "timed_out"
]

_ENDED: dict[WorkflowExecutionStatus, ListedStatus] = {
    WorkflowExecutionStatus.COMPLETED: "done",
    WorkflowExecutionStatus.FAILED: "failed",
    WorkflowExecutionStatus.CANCELED: "cancelled",
    WorkflowExecutionStatus.TERMINATED: "terminated",
    WorkflowExecutionStatus.TIMED_OUT: "timed_out",
}
_NAMES = {status: code.name.title().replace("_", "") for code, status in _ENDED.items()}


def listed_status(run: WorkflowExecution) -> ListedStatus:
    """Return the run's status; a link that another one continues counts as running."""
    if run.status in _ENDED:
        return _ENDED[run.status]
    shown = run.typed_search_attributes.get(STATUS)
    return cast("ListedStatus", shown) if shown in ("waiting", "held") else "running"


def status_named(name: str) -> ListedStatus:
    """Return the status that the server counts under this name."""
    return next((status for status, known in _NAMES.items() if known == name), "running")


def status_condition(status: ListedStatus) -> str:
    """Return the condition of the server's query language for runs of that status."""
    if status in _NAMES:
        return f"ExecutionStatus = '{_NAMES[status]}'"
    is_open = "ExecutionStatus = 'Running'"
    return is_open if status == "running" else f"{is_open} AND {STATUS.name} = '{status}'"


RUNS = f"WorkflowType = '{WORKFLOW}' AND ExecutionStatus != 'ContinuedAsNew'"
"""Query for all runs: each appears once, by its last link."""


@dataclass(frozen=True)
class RunSummary:
    """A run in a list."""

    id: str
    agent: str | None
    """The name of its agent; None if neither a search attribute nor a readable memo has it."""
    status: ListedStatus
    started: datetime
    """With a time zone, as `ended`."""
    ended: datetime | None
    """None for an open run."""
    task_queue: str
    cost_usd: float | None
    """The cost; 0 while the run is open, None where the namespace lacks the search attribute."""
    tenant: str | None
    session: str | None
    """The id of the session of which it is a turn."""
    origin: str | None
    """The run or the schedule that started it; `direct` for a program or a person."""


async def list_runs(
    client: Client, *, where: str | None = None, limit: int = 50
) -> AsyncIterator[RunSummary]:
    """Yield at most `limit` runs, latest start or end first, without reading their histories.

    `where` is a list filter of Temporal's, such as `PerdureAgent = 'clerk' AND StartTime >
    '2030-01-31T00:00:00Z'`. The list lags by a second or so. Raises `RPCError` for a filter that
    the server does not accept.
    """
    for run in await newest_runs(client, f"{RUNS} AND ({where})" if where else RUNS, limit):
        attributes, shown = run.typed_search_attributes, await shown_of(run)
        yield RunSummary(
            id=run.id,
            agent=shown.agent or attributes.get(AGENT),
            status=listed_status(run),
            started=shown.started,
            ended=run.close_time,
            task_queue=run.task_queue,
            cost_usd=attributes.get(COST),
            tenant=attributes.get(TENANT),
            session=attributes.get(SESSION),
            origin=attributes.get(ORIGIN),
        )


async def newest_runs(client: Client, query: str, limit: int) -> list[WorkflowExecution]:
    """Return the runs with the latest start or end; the server itself lists all open ones first,
    however old.
    """
    lists = [
        client.list_workflows(f"({query}) AND ExecutionStatus {each} 'Running'", limit=limit)
        for each in ("=", "!=")
    ]
    found = [run for each in lists async for run in each]
    return sorted(found, key=lambda run: run.close_time or run.start_time, reverse=True)[:limit]
