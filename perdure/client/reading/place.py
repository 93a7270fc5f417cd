"""Where a reader stands in a run that is read together with the runs that it has called."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ...events import RunEvent

_BRANCH = re.compile(r"\d{1,18}-\d{1,18}")


@dataclass
class Place:
    """Where a reader stands in a run, and in those of its called runs that have begun and not ended there."""

    own: str = "0"
    called: dict[str, str] = field(default_factory=dict)
    """The end of the run's id, such as `3-0` → the reader's position in it, which may be one of several runs too."""

    @classmethod
    def at(cls, after: int | str) -> Place:
        """The place of a position. Raises ValueError for what is none; `own` is checked by whoever uses it."""
        own, bracket, rest = str(after).partition("(")
        if bracket and not rest.endswith(")"):
            raise ValueError(f"{after!r} is no position in a run, expected the `position` of one of its events")
        branches = dict(_branches(rest[:-1])) if bracket else {}
        return cls(own, branches)

    def __str__(self) -> str:
        called = ",".join(f"{key}={position}" for key, position in sorted(self.called.items()))
        return f"{self.own}({called})" if called else self.own

    def moved(self, event: RunEvent, run: str | None) -> RunEvent:
        """The event, of the run itself or of a called one, with the place after it."""
        if run is not None:
            self.called[branch_of(run)] = event.position
            return event.model_copy(update={"position": str(self), "run_id": event.run_id or run})
        self.own = event.position
        return event.model_copy(update={"position": str(self)})


def _branches(text: str) -> Iterator[tuple[str, str]]:
    """`1-0=5,1-1=7(2-0=3)` in its parts. Raises ValueError."""
    start = depth = 0
    for end, character in enumerate(f"{text},"):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            key, equals, position = text[start:end].partition("=")
            if not equals or not _BRANCH.fullmatch(key):
                raise ValueError(f"{text!r} is no position in called runs, expected the `position` of an event")
            yield key, position
            start = end + 1
    if depth:
        raise ValueError(f"{text!r} is no position in called runs: its brackets do not match")


def branch_of(run: str) -> str:
    """What tells a called run from the others of its caller: the end of its id."""
    return run.rpartition("/")[2]
