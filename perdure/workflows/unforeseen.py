"""Puts into words why an activity failed, where the loop has no words of its own for it."""

from __future__ import annotations

from temporalio.exceptions import ActivityError, ApplicationError, TimeoutError

from ..protocol.activities import INTERNAL_ERROR

WORKER_LOST = "worker_lost"
"""Error kind: every worker that tried was lost, or stopped answering."""


def explain(error: BaseException) -> tuple[str, str]:
    """The error's kind and text, for a `RunError`; a failed activity speaks with the words of its cause."""
    cause = error.cause if isinstance(error, ActivityError) and error.cause else error
    if isinstance(cause, ApplicationError):
        return cause.type or INTERNAL_ERROR, cause.message
    if isinstance(error, ActivityError) and isinstance(cause, TimeoutError):
        return WORKER_LOST, f"{error.activity_type} was given up: each worker that tried was lost, or did not answer"
    return INTERNAL_ERROR, f"{type(cause).__name__}: {cause}"
