"""Remembers what was made of a message: an agent sends the same ones at every iteration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import ref

from ..messages import Message

Made = TypeVar("Made")


class _Reference(ref[Message]):
    """A weak reference that knows where it is kept."""

    __slots__ = ("key",)
    key: int


class Remembered(Generic[Made]):
    """A function of a message whose results are kept for as long as the message lives.

    Only for messages that nobody changes any more; nor may anyone change a result.
    """

    def __init__(self, make: Callable[[Message], Made]) -> None:
        self._make = make
        self._made: dict[int, tuple[_Reference, Made]] = {}

    def __call__(self, message: Message) -> Made:
        key = id(message)
        known = self._made.get(key)
        if known is not None and known[0]() is message:
            return known[1]
        made = self._make(message)
        reference = _Reference(message, self._forget)
        reference.key = key
        self._made[key] = reference, made
        return made

    def __len__(self) -> int:
        return len(self._made)

    def _forget(self, reference: ref[Message]) -> None:
        assert isinstance(reference, _Reference)
        known = self._made.get(reference.key)
        # Another message may have taken the same place in memory before this one's end was told.
        if known is not None and known[0] is reference:
            del self._made[reference.key]
