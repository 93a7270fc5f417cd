"""What is written of a conversation, as JSON values, is written once.

An agent sends its whole conversation at every iteration. Writing 400 messages of 1 KB anew costs about as much as
sending them. The door is `Unchanging`: whoever wraps messages in it promises that nobody changes them any more, and
what a `Memo` writes of them is kept. Messages in any other list are written anew each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar
from weakref import finalize

from pydantic import BaseModel

T = TypeVar("T")
Item = TypeVar("Item")
Subject = TypeVar("Subject", bound=BaseModel)


class Unchanging(list[T]):
    """Messages (or agents) that nobody changes any more, nor anything that is written of them."""


class Memo(Generic[Subject, Item]):
    """Writes a list of subjects: `write` gives the items of one, `join` adds them to the items so far.

    `join` may replace the last one there, but changes none. What is written of an `Unchanging` subject is kept for as
    long as it lives.
    """

    def __init__(
        self,
        write: Callable[[Subject], list[Item]],
        join: Callable[[list[Item], list[Item]], None] = list.extend,
    ) -> None:
        self._write = write
        self._join = join
        self._kept: dict[int, list[Item]] = {}
        """By the place in memory of a subject that lives."""

    def __call__(self, subjects: Sequence[Subject]) -> list[Item]:
        """Return the items of all subjects. Those of `Unchanging` ones belong to the memo: nobody may change them."""
        write = self._write_once if isinstance(subjects, Unchanging) else self._write
        items: list[Item] = []
        for subject in subjects:
            self._join(items, write(subject))
        return items

    def of(self, subject: Subject, *, along_with: Sequence[Any]) -> list[Item]:
        """Return the items of one subject; it is unchanging when the list that it goes along with is."""
        return self(Unchanging([subject]) if isinstance(along_with, Unchanging) else [subject])

    def __len__(self) -> int:
        """The number of subjects of which something is kept."""
        return len(self._kept)

    def _write_once(self, subject: Subject) -> list[Item]:
        key = id(subject)
        if key not in self._kept:
            self._kept[key] = self._write(subject)
            finalize(subject, self._kept.pop, key, None).atexit = False
        return self._kept[key]
