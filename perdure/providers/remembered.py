"""Remembers what was made of a message: an agent sends the same ones at every iteration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import ref

from ..messages import Message

Made = TypeVar("Made")


class Remembered(Generic[Made]):
    """A function of a message whose results are kept for as long as the message lives.

    Only for messages that nobody changes any more; nor may anyone change a result.
    """

    def __init__(self, make: Callable[[Message], Made]) -> None:
        self._make = make
        self._made: dict[int, tuple[ref[Message], Made]] = {}

    def __call__(self, message: Message) -> Made:
        key = id(message)
        known = self._made.get(key)
        if known is not None and known[0]() is message:
            return known[1]
        made = self._make(message)
        self._made[key] = ref(message, lambda _: self._forget(key)), made
        return made

    def __len__(self) -> int:
        return len(self._made)

    def _forget(self, key: int) -> None:
        known = self._made.get(key)
        # Another message may have taken the same place in memory before this one's end was told.
        if known is not None and known[0]() is None:
            del self._made[key]
