"""A cache of the JSON values that a conversation is serialised to.

An agent sends its whole conversation at every iteration. Serialising 400 messages of 1 KB anew
costs about as much as sending them. Wrapping messages in `Unchanging` promises that they no longer
change, and a `Memo` caches their serialised form. It serialises messages in any other list anew
each time.
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
    """Messages (or agents) that no longer change, and whose serialised form does not change
    either.
    """


class Memo(Generic[Subject, Item]):
    """Serialises a list of subjects: `write` returns the items of one, `join` adds them to the
    items before.

    `join` may replace the last one there, but does not change any. The items of an `Unchanging`
    subject are cached for as long as it lives.
    """

    def __init__(
        self,
        write: Callable[[Subject], list[Item]],
        join: Callable[[list[Item], list[Item]], None] = list.extend,
    ) -> None:
        self._write = write
        self._join = join
        self._kept: dict[int, list[Item]] = {}
        """By the memory address of a live subject."""

    def __call__(self, subjects: Sequence[Subject]) -> list[Item]:
        """Return the items of all subjects. Those of `Unchanging` ones belong to the memo: callers
        must not change them.
        """
        write = self._write_once if isinstance(subjects, Unchanging) else self._write
        items: list[Item] = []
        for subject in subjects:
            self._join(items, write(subject))
        return items

    def of(self, subject: Subject, *, along_with: Sequence[Any]) -> list[Item]:
        """Return the items of one subject, which is unchanging if the list that accompanies it
        is.
        """
        return self(Unchanging([subject]) if isinstance(along_with, Unchanging) else [subject])

    def __len__(self) -> int:
        """The number of subjects with cached items."""
        return len(self._kept)

    def _write_once(self, subject: Subject) -> list[Item]:
        key = id(subject)
        if key not in self._kept:
            self._kept[key] = self._write(subject)
            finalize(subject, self._kept.pop, key, None).atexit = False
        return self._kept[key]
