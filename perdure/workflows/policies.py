"""How long activities may take, and how often Temporal retries them."""

from __future__ import annotations

from datetime import timedelta

from temporalio.common import RetryPolicy

from ..protocol.activities import TOOL_STARTS

HEARTBEAT_TIMEOUT = timedelta(seconds=5)
"""A lost worker is noticed this long after the last heartbeat of an activity."""
WORKFLOW_TASK_TIMEOUT = timedelta(seconds=8)
"""A worker that is lost in a workflow task is noticed after this time."""
MARGIN = timedelta(seconds=15)
"""Activities enforce their time-outs themselves. Temporal's come this much later, for activities that can't."""


TIMED_OUT = "TemporalTimeout:StartToClose"
"""Temporal's name for an activity that took too long, although its worker was alive: it would take too long again."""


def _attempts(maximum: int, *, final: tuple[str, ...] = (TIMED_OUT,)) -> RetryPolicy:
    return RetryPolicy(
        non_retryable_error_types=list(final),
        initial_interval=timedelta(milliseconds=200),
        backoff_coefficient=2.0,
        maximum_interval=timedelta(seconds=10),
        maximum_attempts=maximum,
    )


LOST_WORKER_RETRIES = _attempts(10)
"""For failures of the platform, such as a killed worker or a lost connection to the server. Temporal never retries what
a provider or a tool has answered: the loop decides about that."""

MOMENTARY_RETRIES = _attempts(10, final=())
"""The same for an activity that takes a moment and sends no heartbeats: its time-out tells of a lost worker."""

PACED_RETRIES = _attempts(1)
"""For a model call that has taken a permit: a further attempt takes another one."""

TOOL_RETRIES = _attempts(TOOL_STARTS)
"""The same for what others execute, if it may be repeated: fewer, because it may be what brings down its workers."""

SUSPECT_RETRIES = _attempts(40)
"""For a tool that may be repeated, whose starts its workers count: in other attempts it waits for its turn, or the
platform has failed."""

COMPACTION_RETRIES = _attempts(3)
"""For any failure of a compactor: after these attempts, the built-in summary replaces it (§13.3)."""

OFFERED_RETRIES = _attempts(60)
"""For an activity that is offered to other workers: most attempts are refusals, of which a minute has about 35."""

NO_RETRY = RetryPolicy(maximum_attempts=1)
