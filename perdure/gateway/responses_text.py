"""The text of an answer as events of an OpenAI response, numbered so that any gateway can resume.

The number of an event contains, from its highest bit on: the iteration of the run; whether it
represents an event of the run or a position in the text of the iteration's answer; then the event's
`seq` and an index among the events made from it, or the number of texts before this one, and its
length so far. So the number grows, and stays below 2^53 for 32,000 iterations. A client that
resumes within a text gets it again: the item that it has ends as incomplete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..events import RunEvent
from ..json_types import JsonObject
from .responses_wire import text_item, text_part

ITERATION, IS_EVENT, ATTEMPT = 38, 1 << 37, 33
MAX_ATTEMPT, MAX_LENGTH, MAX_PLACE = 15, (1 << ATTEMPT) - 3, 255
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


def text_in(number: int) -> tuple[int, int] | None:
    """Return the text in which an event number is a position: its iteration, and the number of
    texts before it. None for a number that represents an event of the run.
    """
    if number >> ITERATION == 0 or number & IS_EVENT:
        return None
    return number >> ITERATION, number >> ATTEMPT & MAX_ATTEMPT


class ReplyText:
    """The text of one model reply so far, and the client's part of it.

    The end of an item as incomplete tells the client that its text is not the answer.
    """

    def __init__(self, iteration: int, mark: str, next_index: Callable[[], int]) -> None:
        """`mark` is the run's mark in ids of items."""
        self.text = ""
        self.item = ""
        """The id of the client's item for the text; "" for none."""
        self.index = 0
        self.is_complete = False
        """Whether the call is over while its text is not yet known to be an answer."""
        self._attempt = 0
        self._iteration = iteration
        self._mark = mark
        self._next_index = next_index
        self._shown = 0

    @property
    def text_of_client(self) -> str:
        """The client's part of the text."""
        return self.text[: self._shown]

    def void_of_client(self, attempt: int) -> Iterator[Frame]:
        """Close the item of this reply that a resuming client has received."""
        self._attempt = attempt
        self._take_item()
        yield from self.void()

    def add(self, event: RunEvent, held_back: int | None) -> Iterator[Frame]:
        """Add a part of the text, and show it unless it must be held back."""
        self.text += event.data["token"]
        if held_back is not None and (self.item or len(self.text) > held_back):
            yield from self.show()

    def _take_item(self) -> None:
        self.item = f"msg_{self._mark}_{self._iteration}_{self._attempt}"
        self.index = self._next_index()

    def _open(self) -> Iterator[Frame]:
        self._take_item()
        base = _text_base(self._iteration, self._attempt)
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
            length = min(self._shown, MAX_LENGTH) + 1
            number = _text_base(self._iteration, self._attempt) + length
            yield frame_of("response.output_text.delta", number, delta=rest, logprobs=[], **place)

    def void(self) -> Iterator[Frame]:
        """Close the item of a text that is not an answer, if the client has one."""
        if self.item:
            item = text_item(self.item, "", "incomplete")
            number = _text_base(self._iteration, self._attempt + 1) - 1
            self.item, self._shown, self._attempt = "", 0, self._attempt + 1
            yield frame_of("response.output_item.done", number, output_index=self.index, item=item)
