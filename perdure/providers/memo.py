"""What is written of a conversation, as JSON values and as bytes, is written once.

An agent sends its whole conversation at every iteration. Writing 400 messages of 1 KB anew costs about as much as
sending them. The door is `Unchanging`: whoever wraps messages in it promises that nobody changes them any more, and
what a `Memo` writes of them is kept. Messages in any other list are written anew each time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import is_
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import ref

from pydantic import BaseModel
from pydantic_core import to_json

T = TypeVar("T")
Item = TypeVar("Item")
Subject = TypeVar("Subject", bound=BaseModel)
Join = Callable[[list[Item], list[Item]], None]
"""Adds items at the end of a list; it may replace the last one there, but changes none."""


class Unchanging(list[T]):
    """Messages (or agents) that nobody changes any more, nor anything that is written of them."""


class Memo(Generic[Subject, Item]):
    """Writes a list of subjects: `write` gives the items of one, `join` adds them to the items so far.

    Of `Unchanging` subjects, only those that were not in the list before are written, whether the list has grown or
    was trimmed. The first subject stands for the list: the others, and what is written of all of them, are kept for
    as long as the first one lives.
    """

    def __init__(
        self,
        write: Callable[[Subject], list[Item]],
        join: Join[Item] = list.extend,
    ) -> None:
        self._write = write
        self._join = join
        self._lists: dict[int, _Kept[Subject, Item]] = {}

    def __call__(self, subjects: Sequence[Subject]) -> list[Item]:
        """Return the items of all subjects. Those of `Unchanging` ones belong to the memo: nobody may change them."""
        if subjects and isinstance(subjects, Unchanging):
            return self._write_list(subjects)
        return _join_all([], map(self._write, subjects), self._join)

    def of(self, subject: Subject, *, along_with: Sequence[Any]) -> list[Item]:
        """Return the items of one subject; it is unchanging when the list that it goes along with is."""
        return self(Unchanging([subject]) if isinstance(along_with, Unchanging) else [subject])

    def __len__(self) -> int:
        """The number of lists that are kept."""
        return len(self._lists)

    def _write_list(self, subjects: Unchanging[Subject]) -> Written[Item]:
        first, others = subjects[0], subjects[1:]
        kept = self._keep(first)
        same = _common_start(kept.others, others)
        known = dict(zip(map(id, kept.others[same:]), kept.each[same + 1 :], strict=True))
        new = [known[id(one)] if id(one) in known else self._write(one) for one in others[same:]]
        each = kept.each[: same + 1]
        each += new
        has_grown = same == len(kept.others)
        written = kept.written.grow(new, self._join) if has_grown else kept.written.change(each, self._join)
        self._lists[id(first)] = _Kept(kept.first, others, each, written)
        return written

    def _keep(self, first: Subject) -> _Kept[Subject, Item]:
        kept = self._lists.get(id(first))
        if kept is not None and kept.first() is first:
            return kept
        reference = _Reference(first, self._forget)
        reference.key = id(first)
        each = [self._write(first)]
        return _Kept(reference, [], each, Written(_join_all([], each, self._join)))

    def _forget(self, reference: ref[BaseModel]) -> None:
        assert isinstance(reference, _Reference)
        kept = self._lists.get(reference.key)
        # Another subject may have taken the same place in memory before the end of this one was reported.
        if kept is not None and kept.first is reference:
            del self._lists[reference.key]


class _Reference(ref[BaseModel]):
    """A weak reference that knows where it is kept."""

    __slots__ = ("key",)
    key: int


class Written(list[Item]):
    """What a `Memo` wrote of unchanging subjects; the bytes of each item are kept once it is encoded."""

    def __init__(self, items: Iterable[Item] = ()) -> None:
        super().__init__(items)
        self._texts: list[bytes] = []
        """For each item that is encoded, a comma and its JSON."""
        self._known: dict[int, bytes] = {}
        """The same for items of an earlier list, by their `id`."""

    def grow(self, new: list[list[Item]], join: Join[Item]) -> Written[Item]:
        """Return the list with more items at its end."""
        grown = Written(self)
        _join_all(grown, new, join)
        end = len(self)
        is_last_replaced = end > 0 and grown[end - 1] is not self[-1]
        grown._texts = self._texts[: end - is_last_replaced]
        return grown

    def change(self, each: list[list[Item]], join: Join[Item]) -> Written[Item]:
        """Another list, of which some items are in this one."""
        changed: Written[Item] = Written()
        _join_all(changed, each, join)
        changed._known = dict(zip(map(id, self), self._texts, strict=False))
        return changed

    @staticmethod
    def changed_in(items: list[Item], changed: Mapping[int, Item], first: Sequence[Item] = ()) -> list[Item]:
        """Return the items, with others in some places and before the first; what is known of the rest stays known."""
        if isinstance(items, Written):
            return _Changed(items, changed, first)
        return [*first, *(changed.get(index, item) for index, item in enumerate(items))]

    def encode(self) -> list[bytes]:
        """Return a JSON array in pieces, to be joined once: each copy of a large body costs a page fault per 4 KB."""
        return _array(self.texts())

    def texts(self) -> list[bytes]:
        """Return, for each item, a comma and its JSON."""
        texts, known = self._texts, self._known
        texts += [known.get(id(item)) or b"," + _json(item) for item in self[len(texts) :]]
        self._known = {}
        return texts


class _Changed(Written[Item]):
    """What was written, with some items exchanged for one request; of the others, what is encoded is kept."""

    def __init__(self, written: Written[Item], changed: Mapping[int, Item], first: Sequence[Item]) -> None:
        super().__init__(written)
        for index, item in changed.items():
            self[index] = item
        self[:0] = first
        self._written = written
        self._changed = changed
        self._first = first

    def texts(self) -> list[bytes]:
        texts = list(self._written.texts())
        for index, item in self._changed.items():
            texts[index] = b"," + _json(item)
        return [*(b"," + _json(item) for item in self._first), *texts]


def _array(texts: list[bytes]) -> list[bytes]:
    return [b"[", texts[0][1:], *texts[1:], b"]"] if texts else [b"[]"]


class _Kept(NamedTuple, Generic[Subject, Item]):
    first: _Reference
    others: list[Subject]
    each: list[list[Item]]
    """The items of each subject, the first included."""
    written: Written[Item]


def _join_all(items: list[Item], each: Iterable[list[Item]], join: Join[Item]) -> list[Item]:
    for more in each:
        join(items, more)
    return items


def encode(body: Mapping[str, Any]) -> bytes:
    """Return the body as JSON in UTF-8 without blanks.

    NaN and infinity become `null`; half of a surrogate pair, which UTF-8 cannot express, becomes `?`. Raises
    TypeError or ValueError for values that JSON cannot express.
    """
    try:
        pieces = [piece for key, value in body.items() for piece in (b",", _json(key), b":", *_encode(value))]
    except ValueError:
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.encode("utf-8", "replace")
    return b"".join((b"{", *pieces[1:], b"}"))


def _encode(value: Any) -> Iterable[bytes]:
    return value.encode() if isinstance(value, Written) else (_json(value),)


def _json(value: Any) -> bytes:
    return to_json(value, inf_nan_mode="null")


def _common_start(old: Sequence[Any], new: Sequence[Any]) -> int:
    """Return how many objects at the start are the same."""
    if len(old) <= len(new) and all(map(is_, old, new)):
        return len(old)
    pairs = enumerate(zip(old, new, strict=False))
    return next((index for index, (one, other) in pairs if one is not other), len(new))
