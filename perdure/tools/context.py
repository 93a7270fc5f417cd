"""What a tool function may know about the execution that it is part of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


def _no_heartbeat(*details: object) -> None:
    """Outside a worker nobody listens."""


@dataclass(frozen=True)
class ToolContext:
    """Passed to a tool function that has a parameter annotated with this class. The model never sees that parameter."""

    run_id: str = ""
    iteration: int = 0
    call_id: str = ""
    idempotency_key: str = ""
    """The same for every attempt of one tool call, and for no other call: pass it to services that deduplicate."""
    attempt: int = 1
    """1 for the first execution; more for one that repeats an execution which was lost with its worker."""
    heartbeat: Callable[..., None] = _no_heartbeat
    """Tells Temporal that a long execution is alive, with details or without. May be called from any thread."""
