"""Reads what is kept of one run, for its memory events."""

from __future__ import annotations

from collections.abc import Sequence

from temporalio.client import Client, WorkflowExecutionStatus

from ...client import RunHandle
from ...events import RunEvent
from ...history.chain import Chain
from ...history.link import read_input
from ...trace_ids import TraceIds
from .event import MemoryEvent
from .projection import events_of
from .said import RunMemory, said_in

_CUT_OFF = {
    WorkflowExecutionStatus.TERMINATED: "the run was terminated",
    WorkflowExecutionStatus.TIMED_OUT: "the run timed out",
}


async def run_events(client: Client, run_id: str, first_run_id: str | None = None) -> list[MemoryEvent]:
    """The events of one run, open or closed, by KAOS's names; `first_run_id` tells it from a later one of that id.

    Raises `RunNotFound` when there is no such run, or its history is not kept any more.
    """
    return events_of(await read_run(client, run_id, first_run_id))


async def read_run(client: Client, run_id: str, first_run_id: str | None = None) -> RunMemory:
    """What is kept of the run. Raises as `run_events` does."""
    seen = await RunHandle(client, run_id, origin=first_run_id).events()
    chain = Chain(client, run_id, first_run_id)
    described = await chain.describe()
    input = await read_input(client, run_id, await chain.first_kept())
    since = seen[0].time if seen else described.start_time.timestamp()
    caller = input.lineage.trace if input.lineage else ""
    return RunMemory(
        run_id,
        said_in(input, seen, since),
        seen,
        TraceIds.of(client.namespace, run_id, await chain.origin(), caller),
        _failure(seen) or _CUT_OFF.get(described.status or WorkflowExecutionStatus.RUNNING, ""),
        described.close_time.timestamp() if described.close_time else since,
    )


def _failure(seen: Sequence[RunEvent]) -> str:
    match seen[-1:]:
        case [RunEvent(type="failed", data=data)]:
            return str(data["message"])
        case [RunEvent(type="cancelled")]:
            return "the run was cancelled"
    return ""
