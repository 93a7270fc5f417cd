"""The text of an answer as events of an OpenAI response, numbered so that any gateway can resume in
its middle.

The number of an event contains, from its highest bit on: the iteration of the run; whether it
represents an event of the run or a position in the text of the iteration's answer; then the event's
`seq` and an index among the events made from it, or the attempt of the model call, the number of
the client's characters, and a digest of them. So the number grows, stays below 2^53 for 32,000
iterations, and shows whether the client's text is still a prefix of the valid text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from ..events import RunEvent
from ..json_types import JsonObject
from .responses_wire import text_item, text_part

ITERATION, IS_EVENT = 38, 1 << 37
ATTEMPT, OFFSET, DIGEST = 33, 11, (1 << 11) - 1
MAX_ATTEMPT, MAX_OFFSET, MAX_PLACE = 15, (1 << 22) - 1, 255
MAX_NUMBER = (1 << 63) - 1

Frame = JsonObject
"""An event of a response."""


def frame_of(type: str, number: int, **data: Any) -> Frame:
    """Return an event of a response."""
    return {"type": type, "sequence_number": number, **data}


def event_number(iteration: int, seq: int, place: int) -> int:
    """Return the number of a response event made from an event of the run; one number before the
    next stays free.
    """
    return iteration << ITERATION | IS_EVENT | seq << 9 | min(place, MAX_PLACE) << 1


def _text_base(iteration: int, attempt: int) -> int:
    return iteration << ITERATION | min(attempt, MAX_ATTEMPT) << ATTEMPT


def text_number(iteration: int, attempt: int, text: str) -> int:
    """Return the number of the event after which a client has that text."""
    mark = (
        int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=2).digest())
        & DIGEST
    )
    return _text_base(iteration, attempt) | min(len(text), MAX_OFFSET) << OFFSET | mark


@dataclass(frozen=True)
class TextSoFar:
    """The client's part of a text, as encoded in the number after which it resumes."""

    iteration: int
    attempt: int
    length: int
    number: int

    @classmethod
    def read(cls, number: int) -> TextSoFar | None:
        """Read the number; None for one that represents an event."""
        if number >> ITERATION == 0 or number & IS_EVENT:
            return None
        attempt, length = number >> ATTEMPT & MAX_ATTEMPT, number >> OFFSET & MAX_OFFSET
        return cls(number >> ITERATION, attempt, length, number)

    def begins(self, text: str) -> bool:
        """Return whether the client's part is a prefix of this text."""
        if len(text) < self.length:
            return False
        return (
            self.length == 0
            or text_number(self.iteration, self.attempt, text[: self.length]) == self.number
        )


class ReplyText:
    """The text of one model reply so far, and the client's part of it.

    The end of an item as incomplete tells the client that its text is not the answer.
    """

    def __init__(
        self, iteration: int, mark: str, known: TextSoFar | None, next_index: Callable[[], int]
    ) -> None:
        """`mark` is the run's mark in ids of items; `known` is the text of a client that
        resumes.
        """
        self.text = ""
        self.item = ""
        """The id of the client's item for the text; "" for none."""
        self.index = 0
        self.attempt = 0
        self.retries = 0
        """The number of times that the run itself has repeated the call."""
        self.is_complete = False
        """Whether the call is over while its text is not yet known to be an answer."""
        self._iteration = iteration
        self._mark = mark
        self._known = known if known and known.iteration == iteration else None
        self._next_index = next_index
        self._shown = 0

    @property
    def text_of_client(self) -> str:
        """The client's part of the text."""
        return self.text[: self._shown]

    def add(self, event: RunEvent, held_back: int | None) -> Iterator[Frame]:
        """Add a part of the text, and show it unless it must be held back."""
        self.text += event.data["token"]
        if not self.item:
            self.attempt = max(self.attempt, self.retries + _lost_before(event.position))
        yield from self.meet_client(is_whole=False)
        if (
            self._known is None
            and held_back is not None
            and (self.item or len(self.text) > held_back)
        ):
            yield from self.show()

    def meet_client(self, *, is_whole: bool) -> Iterator[Frame]:
        """Continue the client's text, once it is known whether it is a prefix of this one."""
        known = self._known
        if known is None or not (is_whole or len(self.text) >= known.length):
            return
        self._known, self.attempt = None, known.attempt
        yield from self._open()
        self._shown = known.length
        if not known.begins(self.text):
            yield from self.void()

    def _open(self) -> Iterator[Frame]:
        self.item, self.index = (
            f"msg_{self._mark}_{self._iteration}_{self.attempt}",
            self._next_index(),
        )
        base = _text_base(self._iteration, self.attempt)
        item = text_item(self.item, "", "in_progress")
        yield frame_of("response.output_item.added", base, output_index=self.index, item=item)
        place = {"item_id": self.item, "output_index": self.index, "content_index": 0}
        yield frame_of("response.content_part.added", base + 1, part=text_part(""), **place)

    def show(self) -> Iterator[Frame]:
        """Give the client the rest of the text so far."""
        if not self.item:
            yield from self._open()
        if rest := self.text[self._shown :]:
            self._shown = len(self.text)
            place = {"item_id": self.item, "output_index": self.index, "content_index": 0}
            number = text_number(self._iteration, self.attempt, self.text)
            yield frame_of("response.output_text.delta", number, delta=rest, logprobs=[], **place)

    def void(self) -> Iterator[Frame]:
        """Close the item of a text that is not an answer, if the client has one."""
        if self.item:
            item, number = (
                text_item(self.item, "", "incomplete"),
                _text_base(self._iteration, self.attempt + 1) - 1,
            )
            self.item, self._shown, self.attempt = "", 0, self.attempt + 1
            yield frame_of("response.output_item.done", number, output_index=self.index, item=item)

    def complete(self, lost: int) -> None:
        """Record the end of the call, with its number of lost attempts."""
        self.is_complete = True
        if not self.item:
            self.attempt = max(self.attempt, self.retries + lost)


_LOST = re.compile(r"\d+@\d+\.(?!r-)[\w-]*-(\d{1,9})\.")


def _lost_before(position: str) -> int:
    """Return the number of the call's attempts that were lost before the one with this text."""
    match = _LOST.match(position)
    return max(0, int(match[1]) - 1) if match else 0
