"""The error that a stored value is lost, which no retry brings back."""

from __future__ import annotations

from temporalio.exceptions import ApplicationError

STORAGE_ERROR = "storage"
"""Error type: a value that was stored outside Temporal is missing or damaged."""


def lost(message: str) -> ApplicationError:
    """An error that ends the run: raised in a decision, any other would be retried for ever."""
    return ApplicationError(message, type=STORAGE_ERROR, non_retryable=True)
