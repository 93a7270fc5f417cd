"""Shell completion of run ids, from a server that answers at once, and the filters of `perdure
ls`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal

import typer

from ..json_types import JsonView
from ..protocol.names import SESSION_WORKFLOW, WORKFLOW
from .problems import Failure, UsageProblem

if TYPE_CHECKING:
    from temporalio.client import WorkflowExecutionStatus

SECONDS = 2.0
"""The longest wait after a press of the tab key."""
LIMIT = 30


def choose_server(chosen: JsonView) -> None:
    """Put the options for the server into the environment of this process, which everything below
    reads.
    """
    variables = {
        "address": "TEMPORAL_ADDRESS",
        "namespace": "TEMPORAL_NAMESPACE",
        "data_dir": "PERDURE_HOME",
    }
    for option, variable in {**variables, "codec": "PERDURE_CODEC"}.items():
        if value := chosen.get(option):
            os.environ[variable] = str(value)


def run_ids(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the runs whose ids begin so, newest first, each with its agent and status; never
    raises.
    """
    return _complete(context, incomplete, _query())


def open_run_ids(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return those of them that have not ended; never raises."""
    return _complete(context, incomplete, f"{_query()} AND ExecutionStatus = 'Running'")


def session_ids(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the sessions whose ids begin so, newest first, each with its agent and status; never
    raises.
    """
    return _complete(context, incomplete, _query(SESSION_WORKFLOW))


def _query(workflow: str = WORKFLOW) -> str:
    return Filters(workflow=workflow).query()


def _complete(context: typer.Context, incomplete: str, query: str) -> list[tuple[str, str]]:
    import asyncio  # `perdure --help` starts without it

    choose_server(context.parent.params if context.parent else {})
    try:
        from ..client.connection import environment_names_a_server
        from ..client.embedded.state import use_running

        if not environment_names_a_server() and use_running() is None:
            return []  # completion starts no server
        from ..protocol.search_attributes import quote

        begins = f" AND WorkflowId STARTS_WITH {quote(incomplete)}" if incomplete else ""
        return asyncio.run(asyncio.wait_for(_find(f"{query}{begins}"), SECONDS))
    except Exception:
        # Shell completion must write nothing.
        return []


async def _find(query: str) -> list[tuple[str, str]]:
    from ..client.connection import connect
    from ..protocol.search_attributes import AGENT

    client = await connect()
    return [
        (
            run.id,
            f"{run.typed_search_attributes.get(AGENT, 'run')}, "
            f"{run.status.name.lower() if run.status else '?'}",
        )
        async for run in client.list_workflows(query, limit=LIMIT)
    ]


Status = Literal[
    "running", "waiting", "held", "completed", "failed", "cancelled", "terminated", "timed-out"
]

EXECUTION_STATUS: dict[str, str] = {
    "running": "Running",
    "completed": "Completed",
    "failed": "Failed",
    "cancelled": "Canceled",
    "terminated": "Terminated",
    "timed-out": "TimedOut",
}

WORDS = {name: word for word, name in EXECUTION_STATUS.items()}
_UNITS = {"s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")


@dataclass(frozen=True)
class Filters:
    """Conditions for listed runs; None and "" mean all."""

    status: Status | None = None
    agent: str | None = None
    tenant: str | None = None
    session: str | None = None
    origin: str | None = None
    min_cost: float | None = None
    since: str | None = None
    older_than: str | None = None
    where: str | None = None
    workflow: str = WORKFLOW
    task_queue: str | None = None
    closed_since: str | None = None
    closed_before: str | None = None

    def query(self) -> str:
        """Return the query. Raises `UsageProblem` for an invalid age."""
        return " AND ".join(self._conditions())

    def _conditions(self) -> Iterator[str]:
        from ..protocol import search_attributes as known

        yield f"WorkflowType = '{self.workflow}'"
        if self.status in ("waiting", "held"):
            yield f"ExecutionStatus = 'Running' AND {known.STATUS.name} = '{self.status}'"
        elif self.status:
            yield f"ExecutionStatus = '{EXECUTION_STATUS[self.status]}'"
        else:
            yield "ExecutionStatus != 'ContinuedAsNew'"  # a run is listed once, by its last link
        equal = (
            (known.AGENT, self.agent),
            (known.TENANT, self.tenant),
            (known.SESSION, self.session),
        )
        for key, value in (*equal, (known.ORIGIN, self.origin)):
            if value is not None:
                yield f"{key.name} = {known.quote(value)}"
        if self.min_cost is not None:
            yield f"{known.COST.name} >= {self.min_cost:.12g}"
        if self.task_queue is not None:
            yield f"TaskQueue = {known.quote(self.task_queue)}"
        for option, attribute, operator, age in (
            ("--since", "StartTime", ">=", self.since),
            ("--older-than", "StartTime", "<", self.older_than),
            ("--closed-since", "CloseTime", ">=", self.closed_since),
            ("--closed-before", "CloseTime", "<", self.closed_before),
        ):
            if age is not None:
                yield f"{attribute} {operator} '{moment_of(option, age).isoformat()}'"
        if self.where:
            yield f"({self.where})"


def word_of(status: WorkflowExecutionStatus | None) -> str:
    """Return the word for Temporal's status."""
    name = status.name.title().replace("_", "") if status else ""
    return WORDS.get(name, name.lower())


def query_problem(message: str, filters: Filters) -> Failure | UsageProblem:
    """Return the error for a query that the server refuses."""
    from ..protocol.search_attributes import ALL

    if missing := [
        key.name for key in ALL if key.name in message and key.name not in (filters.where or "")
    ]:
        return Failure(
            f"this server does not know the search attribute {', '.join(missing)} in this "
            "namespace, by which runs "
            "would be found: `perdure setup` registers it. Runs that were started before do not "
            "have it"
        )
    return UsageProblem(
        f"--where {filters.where!r}: the server does not take the query: {message}. Expected a "
        "list filter of "
        "Temporal's, such as: StartTime > '2030-01-31T00:00:00Z' AND PerdureTenant = 'acme'"
        if filters.where
        else f"the server does not take the query: {message}"
    )


def moment_of(option: str, age: str) -> datetime:
    """Return the time for an age, such as `2h`, or for a given time. Raises `UsageProblem` for any
    other text.
    """
    found = _AGE.fullmatch(age.strip().lower())
    if found and found[2] in _UNITS:
        return datetime.now(UTC) - timedelta(**{_UNITS[found[2]]: float(found[1])})
    try:
        return datetime.fromisoformat(age).astimezone()
    except ValueError:
        raise UsageProblem(
            f"{option} {age!r}: expected an age such as 30s, 15min, 2h, 3d, 1w, or a time such as "
            "2030-01-31T08:00"
        ) from None
