"""Filters that select runs, as a query of Temporal's, and the errors for a refused query."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta

from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from ..protocol import search_attributes as known
from ..protocol.names import WORKFLOW
from ..protocol.search_attributes import quote
from .given import Given
from .problems import Failure, UsageProblem

EXECUTION_STATUS = {
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
    """Conditions for listed runs; None means all."""

    status: str | None = None
    agent: str | None = None
    tenant: str | None = None
    session: str | None = None
    origin: str | None = None
    min_cost: float | None = None
    since: str | None = None
    older_than: str | None = None
    where: str | None = None
    task_queue: str | None = None
    closed_since: str | None = None
    closed_before: str | None = None
    workflow: str = WORKFLOW

    def query(self) -> str:
        """Return the query. Raises `UsageProblem` for an invalid age."""
        return " AND ".join(self._conditions())

    def _conditions(self) -> Iterator[str]:
        yield f"WorkflowType = '{self.workflow}'"
        if self.status in ("waiting", "held"):
            yield f"ExecutionStatus = 'Running' AND {known.STATUS.name} = '{self.status}'"
        elif self.status:
            yield f"ExecutionStatus = '{EXECUTION_STATUS[self.status]}'"
        else:
            yield "ExecutionStatus != 'ContinuedAsNew'"  # a run is listed once, by its last link
        for name, value in (
            (known.AGENT.name, self.agent),
            (known.TENANT.name, self.tenant),
            (known.SESSION.name, self.session),
            (known.ORIGIN.name, self.origin),
            ("TaskQueue", self.task_queue),
        ):
            if value is not None:
                yield f"{name} = {quote(value)}"
        if self.min_cost is not None:
            yield f"{known.COST.name} >= {self.min_cost:.12g}"
        for option, condition, age in (
            ("--since", "StartTime >=", self.since),
            ("--older-than", "StartTime <", self.older_than),
            ("--closed-since", "CloseTime >=", self.closed_since),
            ("--closed-before", "CloseTime <", self.closed_before),
        ):
            if age is not None:
                yield f"{condition} '{moment_of(option, age).isoformat()}'"
        if self.where:
            yield f"({self.where})"


def filters_of(given: Given) -> Filters:
    """Return the filters of a command line."""
    return Filters(**{each.name: getattr(given, each.name) for each in fields(Filters)[:-1]})


def word_of(status: WorkflowExecutionStatus | None) -> str:
    """Return the word for Temporal's status."""
    name = status.name.title().replace("_", "") if status else ""
    return WORDS.get(name, name.lower())


@contextmanager
def query_explained(filters: Filters) -> Iterator[None]:
    """Raises the error with the reason for a query that the server refuses."""
    try:
        yield
    except RPCError as error:
        if error.status is not RPCStatusCode.INVALID_ARGUMENT:
            raise
        raise query_problem(error.message, filters) from error


def query_problem(message: str, filters: Filters) -> Failure | UsageProblem:
    """Return the error for a query that the server refuses."""
    names = [key.name for key in known.ALL if key.name in message]
    if missing := [name for name in names if name not in (filters.where or "")]:
        return Failure(
            f"this namespace lacks the search attribute {', '.join(missing)}, which the filter "
            "needs: `perdure setup` registers it. Runs that were started before "
            "do not have it"
        )
    expected = (
        f"--where {filters.where!r}: the server refuses the query: {message}. Expected a "
        "list filter of Temporal's, such as: StartTime > '2030-01-31T00:00:00Z' AND PerdureTenant "
        "= 'acme'"
    )
    return UsageProblem(expected if filters.where else f"the server refuses the query: {message}")


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
