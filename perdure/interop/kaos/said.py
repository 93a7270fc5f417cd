"""What was said in a run, and when: what its memory events are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...events import RunEvent
from ...messages import Message
from ...operations import Append
from ...protocol.run import RunInput
from ...trace_ids import TraceIds


@dataclass(frozen=True)
class Said:
    """One message, when it came into the conversation, and in which iteration; 0 where that is not known."""

    message: Message
    time: float
    iteration: int = 0


@dataclass(frozen=True)
class RunMemory:
    """What is known of one run."""

    run_id: str
    said: Sequence[Said]
    """The messages that it was opened with, and those that it has added."""
    seen: Sequence[RunEvent] = ()
    """Its events; none for a run whose history is not kept any more."""
    ids: TraceIds | None = None
    failure: str = ""
    """How it has ended, unless it is done or under way."""
    until: float = 0.0
    """When it has ended, in seconds since the epoch."""


def said_in(input: RunInput, events: Sequence[RunEvent], since: float) -> list[Said]:
    """The messages that the run was opened with, at `since`, and those that it has added, by its events."""
    appended = [
        Said(message, event.time, event.iteration)
        for event in events
        for operation in event.operations
        if isinstance(operation, Append)
        for message in operation.messages
    ]
    opened = [] if input.carried else [Said(message, since) for message in input.messages]
    return opened + appended[_before(input) + len(opened) :]


def _before(input: RunInput) -> int:
    """How many messages there were before this link of the run: those of other runs, or of links that are gone."""
    found = input.carried.conversation if input.carried else input.beginning
    if found is None:
        return len(input.messages) if input.carried else 0
    return found.ends[-1] if found.ends else len(found.messages)
