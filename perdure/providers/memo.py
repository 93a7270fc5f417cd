"""Remembers what was made of a message or an agent: at every iteration, the same ones are sent again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, Generic, TypeVar
from weakref import ref

from pydantic import BaseModel

Value = TypeVar("Value")
Subject = TypeVar("Subject", bound=BaseModel)


class _Reference(ref[BaseModel]):
    """A weak reference that knows where it is kept."""

    __slots__ = ("key",)
    key: int


class Memo(Generic[Subject, Value]):
    """A function of a thing whose results are kept for as long as the thing lives.

    Only for things that nobody changes any more; nor may anyone change a result.
    """

    def __init__(self, make: Callable[[Subject], Value]) -> None:
        self._make = make
        self._made: dict[int, tuple[_Reference, Value]] = {}

    def __call__(self, thing: Subject) -> Value:
        key = id(thing)
        known = self._made.get(key)
        if known is not None and known[0]() is thing:
            return known[1]
        made = self._make(thing)
        reference = _Reference(thing, self._forget)
        reference.key = key
        self._made[key] = reference, made
        return made

    def __len__(self) -> int:
        return len(self._made)

    def _forget(self, reference: ref[BaseModel]) -> None:
        assert isinstance(reference, _Reference)
        known = self._made.get(reference.key)
        # Another thing may have taken the same place in memory before this one's end was told.
        if known is not None and known[0] is reference:
            del self._made[reference.key]


class Memoized(list[Value]):
    """A list whose items nobody will change any more: the same item says the same."""


@dataclass
class _Latest(Generic[Subject, Value]):
    pairs: tuple[Sequence[Subject], list[Value]]
    """The things without the first, which would keep itself alive, and what was made of all of them."""


class MemoList(Generic[Subject, Value]):
    """A function of each thing of a list; of a list that has grown since, only what is new is looked at one by one.

    The first thing stands for the list. While it lives, so do the others.
    """

    def __init__(self, make: Callable[[Subject], Value]) -> None:
        self._each = Memo(make)
        self._lists = Memo[Subject, _Latest[Subject, Value]](lambda first: _Latest(([], [])))

    def __call__(self, things: Sequence[Subject]) -> Memoized[Value]:
        if not things:
            return Memoized()
        latest = self._lists(things[0])
        known, known_made = latest.pairs
        others = things[1:]
        made = known_made[: common_start(known, others) + 1]
        made += map(self._each, things[len(made) :])
        latest.pairs = others, made
        return Memoized(made)


def common_start(old: Sequence[Any], new: Sequence[Any], same: Callable[[Any, Any], bool] = is_) -> int:
    """How many items at the start are the same: the same objects, unless told what else makes them so."""
    if len(old) <= len(new) and all(map(same, old, new)):
        return len(old)
    pairs = enumerate(zip(old, new, strict=False))
    return next((index for index, (one, other) in pairs if not same(one, other)), len(new))
