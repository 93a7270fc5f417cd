"""What a tool may know about the execution it is part of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


def _no_heartbeat(*details: object) -> None:
    """Outside a worker nobody listens."""


@dataclass(frozen=True)
class ToolContext:
    """Given to a tool function that has a parameter annotated with this class; the model never sees it."""

    run_id: str = ""
    iteration: int = 0
    call_id: str = ""
    idempotency_key: str = ""
    """The same for every attempt of one tool call, and for no other call: hand it to services that deduplicate."""
    attempt: int = 1
    heartbeat: Callable[..., None] = _no_heartbeat
    """Says that a long execution is alive; may be called from any thread, with details or without."""
