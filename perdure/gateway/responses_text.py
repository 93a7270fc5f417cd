"""The text of an answer as events of one of OpenAI's responses, numbered so that any gateway goes on in its middle.

The number of an event has, from its highest bit on: the iteration of the run; whether it stands for an event of the run
or for a place in the text of the iteration's answer; then the event's `seq` and which of its events this is, or the
attempt of the model call, how many characters a client has, and a digest of them. So it grows, is below 2^53 for 32,000
iterations, and says by itself whether what a client has is still the beginning of the text that counts.
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
    """Return the number of an event that an event of the run makes; there is one free before the next."""
    return iteration << ITERATION | IS_EVENT | seq << 9 | min(place, MAX_PLACE) << 1


def _text_base(iteration: int, attempt: int) -> int:
    return iteration << ITERATION | min(attempt, MAX_ATTEMPT) << ATTEMPT


def text_number(iteration: int, attempt: int, text: str) -> int:
    """Return the number of the event after which a client has that text."""
    mark = int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=2).digest()) & DIGEST
    return _text_base(iteration, attempt) | min(len(text), MAX_OFFSET) << OFFSET | mark


@dataclass(frozen=True)
class TextSoFar:
    """What a client has of a text, as the number says after which it goes on."""

    iteration: int
    attempt: int
    length: int
    number: int

    @classmethod
    def read(cls, number: int) -> TextSoFar | None:
        """Return it; None for a number that stands for an event."""
        if number >> ITERATION == 0 or number & IS_EVENT:
            return None
        attempt, length = number >> ATTEMPT & MAX_ATTEMPT, number >> OFFSET & MAX_OFFSET
        return cls(number >> ITERATION, attempt, length, number)

    def begins(self, text: str) -> bool:
        """Return whether it is the beginning of this text."""
        if len(text) < self.length:
            return False
        return self.length == 0 or text_number(self.iteration, self.attempt, text[: self.length]) == self.number


class ReplyText:
    """The text of one reply of the model, as far as it is known, and what a client has of it.

    A client is told by the end of its item, as an incomplete one, that what it has is not the answer.
    """

    def __init__(self, iteration: int, mark: str, known: TextSoFar | None, next_index: Callable[[], int]) -> None:
        """`mark` is that of the run in ids of items; `known` is what the client has that goes on."""
        self.text = ""
        self.item = ""
        """The id of the item that the client has of it; "" for none."""
        self.index = 0
        self.attempt = 0
        self.retries = 0
        """How often the run itself has made the call anew."""
        self.is_complete = False
        """Whether the call is over, and it is not known yet whether its text is an answer."""
        self._iteration = iteration
        self._mark = mark
        self._known = known if known and known.iteration == iteration else None
        self._next_index = next_index
        self._shown = 0

    @property
    def text_of_client(self) -> str:
        """What the client has of the text."""
        return self.text[: self._shown]

    def add(self, event: RunEvent, held_back: int | None) -> Iterator[Frame]:
        """Add a part of the text, and show it if it need not be held back."""
        self.text += event.data["token"]
        if not self.item:
            self.attempt = max(self.attempt, self.retries + _lost_before(event.position))
        yield from self.meet_client(is_whole=False)
        if self._known is None and held_back is not None and (self.item or len(self.text) > held_back):
            yield from self.show()

    def meet_client(self, *, is_whole: bool) -> Iterator[Frame]:
        """Go on with the text that the client has, once it can be said whether that is the beginning of this one."""
        known = self._known
        if known is None or not (is_whole or len(self.text) >= known.length):
            return
        self._known, self.attempt = None, known.attempt
        yield from self._open()
        self._shown = known.length
        if not known.begins(self.text):
            yield from self.void()

    def _open(self) -> Iterator[Frame]:
        self.item, self.index = f"msg_{self._mark}_{self._iteration}_{self.attempt}", self._next_index()
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
        """Close the item of a text that is no answer, if the client has one."""
        if self.item:
            item, number = text_item(self.item, "", "incomplete"), _text_base(self._iteration, self.attempt + 1) - 1
            self.item, self._shown, self.attempt = "", 0, self.attempt + 1
            yield frame_of("response.output_item.done", number, output_index=self.index, item=item)

    def complete(self, lost: int) -> None:
        """Note that the call is over, of which so many attempts were lost."""
        self.is_complete = True
        if not self.item:
            self.attempt = max(self.attempt, self.retries + lost)


_LOST = re.compile(r"\d+@\d+\.(?!r-)[\w-]*-(\d{1,9})\.")


def _lost_before(position: str) -> int:
    """Return how many attempts of the call were lost before the one whose text stands there."""
    match = _LOST.match(position)
    return max(0, int(match[1]) - 1) if match else 0
