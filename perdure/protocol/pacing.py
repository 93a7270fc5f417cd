"""What runs and workers agree on about pacing: permits, and the task queues that give them out."""

from __future__ import annotations

from ..exchanged import Exchanged

PERMIT = "perdure.permit"
"""The activity that does nothing: Temporal limits how many of them a second it gives out on a rate queue."""
IS_POLLED = "perdure.is_polled"

PacedCall = str
"""Which call of a run takes a permit: that of a model (`paced_model`), or `compactor`, of an agent that compacts."""

_RATE = "/rate/"


class QueueInput(Exchanged):
    """A question about a task queue."""

    task_queue: str


def paced_model(fallback: int) -> PacedCall:
    """The call of the agent's own model, or of one of its `fallback`, from 1."""
    return f"fallback {fallback}" if fallback else "model"


def rate_queue(task_queue: str, name: str) -> str:
    """The queue that gives out the permits of one rate to the runs of a task queue."""
    return f"{task_queue}{_RATE}{name}"


def rate_of(queue: str) -> str:
    """The name of the rate that a queue gives out permits of."""
    return queue.rpartition(_RATE)[2]
