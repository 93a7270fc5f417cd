"""How a run stands, as the server lists it: nobody asks the run."""

from __future__ import annotations

from typing import Literal, cast

from temporalio.client import WorkflowExecution, WorkflowExecutionStatus

from ..protocol.search_attributes import STATUS

ListedStatus = Literal["running", "waiting", "held", "done", "failed", "cancelled", "terminated", "timed_out"]

_ENDED: dict[WorkflowExecutionStatus, ListedStatus] = {
    WorkflowExecutionStatus.COMPLETED: "done",
    WorkflowExecutionStatus.FAILED: "failed",
    WorkflowExecutionStatus.CANCELED: "cancelled",
    WorkflowExecutionStatus.TERMINATED: "terminated",
    WorkflowExecutionStatus.TIMED_OUT: "timed_out",
}
_NAMES = {status: code.name.title().replace("_", "") for code, status in _ENDED.items()}


def listed_status(run: WorkflowExecution) -> ListedStatus:
    """Return how the run stands; a link that another one has continued counts as running."""
    if run.status in _ENDED:
        return _ENDED[run.status]
    shown = run.typed_search_attributes.get(STATUS)
    return cast("ListedStatus", shown) if shown in ("waiting", "held") else "running"


def status_condition(status: ListedStatus) -> str:
    """Return the condition of the server's query language for runs that stand so."""
    if status in _NAMES:
        return f"ExecutionStatus = '{_NAMES[status]}'"
    is_open = "ExecutionStatus = 'Running'"
    return is_open if status == "running" else f"{is_open} AND {STATUS.name} = '{status}'"
