"""What has come in from outside and waits for the loop: a cancellation, steering messages, approvals."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..protocol.run import DecidedCall
from .approvals import Approvals

MAX_UPDATES = 1_000
"""After so many decisions, a run goes on in a new link as soon as it can."""


class Inbox:
    """Signals fill it at any time; the loop empties it when it chooses to."""

    def __init__(
        self,
        steering: Sequence[str] = (),
        decided: Sequence[DecidedCall] = (),
        *,
        max_updates: int = MAX_UPDATES,
        on_waiting: Callable[[], None] = lambda: None,
    ) -> None:
        self.cancelled = False
        self.steering = list(steering)
        self.unread = 0
        """How many steering messages are in the conversation that no model call was sent."""
        self.approvals = Approvals(decided, max_updates=max_updates, on_change=on_waiting)

    def drain(self) -> list[str]:
        """All steering messages, in the order they came; each is given once."""
        texts, self.steering = self.steering, []
        self.unread += len(texts)
        return texts
