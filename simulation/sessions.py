"""What must hold of a session in every schedule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .conversations import fault_in_messages
from .outcome import SessionOutcome, answers_in

if TYPE_CHECKING:
    from .world import World

SENTENCES = {
    "MESSAGES": "A message that a session has accepted is in its conversation once, whatever "
    "became of the turn that it went to.",
    "TURNS": "A session's turns run one at a time, and its conversation has their answers, each "
    "once, in order.",
}
"""The sentences of the invariants."""


def judge_session(world: World, session: SessionOutcome) -> Iterator[tuple[str, str]]:
    """Yield the broken invariants of a session, and how each is broken."""
    people = world.people
    assert people is not None
    if fault := fault_in_messages(session.messages):
        yield "VALID", f"the session's conversation: {fault}"
    had = Counter(message.text for message in session.messages if message.role == "user")
    for text, update in people.sent.items():
        accepted = update.state == "done" and type(update.outcome).__name__ == "Payload"
        if had[text] > 1:
            yield "MESSAGES", f"{text!r} is there {had[text]} times"
        if accepted and not had[text] and session.end == "completed":
            yield "MESSAGES", f"{text!r} was accepted, and is not there"
    answers = [
        answer for turn in session.turns if turn.end != "terminated" for answer in turn.answers
    ]
    there = answers_in(session.messages)
    is_cut = any(turn.end == "canceled" for turn in session.turns)
    if session.end == "completed" and not is_cut and there != answers:
        yield "TURNS", f"the turns gave {answers}, the session has {there}"
    for turn, following in zip(session.turns, session.turns[1:], strict=False):
        end = turn.links[-1].last.time
        if turn.closing is None or following.links[0].events[0].time < end:
            yield "TURNS", f"{following.id} begins before the end of {turn.id}"
