"""How long activities may take, and how often Temporal starts them again."""

from __future__ import annotations

from datetime import timedelta

from temporalio.common import RetryPolicy

HEARTBEAT_TIMEOUT = timedelta(seconds=5)
"""A worker that was lost is noticed this long after its last heartbeat."""
WORKFLOW_TASK_TIMEOUT = timedelta(seconds=8)
"""A worker that was lost in a decision is noticed after this."""
MARGIN = timedelta(seconds=15)
"""The activity enforces its own time-out; Temporal's comes after it, for an activity that can't."""


def _attempts(maximum: int) -> RetryPolicy:
    return RetryPolicy(
        initial_interval=timedelta(milliseconds=200),
        backoff_coefficient=2.0,
        maximum_interval=timedelta(seconds=10),
        maximum_attempts=maximum,
    )


LOST_WORKER_RETRIES = _attempts(10)
"""For what the platform breaks: a killed worker, a lost connection to the server. What the provider or a
tool answers never comes here: the loop decides about it."""

TOOL_RETRIES = _attempts(5)
"""The same, for a tool that may be started again: it may be the tool that brings its workers down."""

COMPACTION_RETRIES = _attempts(3)
"""For whatever goes wrong in a compactor: then there is the built-in summary (§13.3)."""

NO_RETRY = RetryPolicy(maximum_attempts=1)
