"""The search attributes of runs, by which Temporal lists them, and the columns of lists from their
memo.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from temporalio.common import SearchAttributeKey

if TYPE_CHECKING:  # Workflows don't import clients.
    from temporalio.client import WorkflowExecution

AGENT = SearchAttributeKey.for_keyword("PerdureAgent")
"""The name of the run's agent."""

STATUS = SearchAttributeKey.for_keyword("PerdureStatus")
"""The run's state: running, waiting (for a person), held, done, failed, cancelled."""

TENANT = SearchAttributeKey.for_keyword("PerdureTenant")
"""The tenant that the run acts for (`start_run`)."""

SESSION = SearchAttributeKey.for_keyword("PerdureSession")
"""The conversation that the run and other runs belong to."""

ORIGIN = SearchAttributeKey.for_keyword("PerdureOrigin")
"""The starter of the run: the id of another run (its caller, or the origin of a fork), a schedule,
or a protocol of the gateway; `DIRECT` for anything else. Each run has one."""

DIRECT = "direct"
"""The origin of a run that a program or a person started directly."""

COST = SearchAttributeKey.for_float("PerdureCost")
"""The run's cost, in US dollars."""

ALL = (AGENT, STATUS, TENANT, SESSION, ORIGIN, COST)
"""Register these in a namespace before a run starts there: upserting an unknown one blocks a run
for ever."""


MAX_KEYWORD_CHARS = 255
"""The limit of Temporal's databases."""


def keyword(text: str) -> str:
    """The text, cut to the length of a keyword."""
    return text[:MAX_KEYWORD_CHARS]


def quote(text: str) -> str:
    """The text as a literal of Temporal's queries: a backslash escapes there, so doubling the
    quotes is not enough.
    """
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


TITLE = "title"
"""Memo key of the question with which the run began, in one line."""
STARTED, HANDED_BY = "perdureStarted", "perdureHandedBy"
"""Memo keys of later links: when the first link began, and the agent that handed the run over."""


class ShownRun(NamedTuple):
    """The columns of a run or a session in lists."""

    agent: str | None
    """The agent that acts now; None if this process's converter can't decode the memo."""
    started: datetime
    """When the run began; when its last link began, if that can't be decoded."""
    handed_by: str = ""
    """The agent that handed over to this one."""
    title: str = ""
    """The question with which the run began; "" for runs of older clients and workers."""


async def shown_of(run: WorkflowExecution) -> ShownRun:
    """Return the list columns of the run; never raises."""
    try:
        memo = await run.memo()
        started = datetime.fromisoformat(memo[STARTED]) if STARTED in memo else run.start_time
        agent, by, title = (str(memo.get(name, "")) for name in ("agent", HANDED_BY, TITLE))
        return ShownRun(agent, started, by, title)
    except Exception:
        # A converter may raise any exception, and one unreadable run must not hide the others.
        return ShownRun(None, run.start_time)
