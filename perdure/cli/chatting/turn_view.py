"""Shows one turn of a conversation: what the agent writes, in full, and what it does, in short."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from ...excerpt import visible
from ...operations import Append
from ..console import to_json
from ..flowing import FlowingText
from ..view import View
from ..written import WRITERS, Line, Writers, Written
from .said import typed

if TYPE_CHECKING:
    from ...events import RunEvent

_ROOM = 8
"""Lines of the terminal that are left to what is over, and to what is being typed."""


class TurnView(View):
    """Shows one event after another above the line to type in.

    Args:
        run_id: The run that is the turn.
        model: The name of its model; "" when that is not known.
        below: Shows what is under way.
        is_shown: Whether a message that the run has read was typed here, and is shown already.
    """

    def __init__(
        self, run_id: str, model: str, below: Callable[[list[Text]], None], is_shown: Callable[[str], bool]
    ) -> None:
        super().__init__(run_id, model)
        self._show_below = below
        self._turn.is_shown = is_shown

    def _writer(self, run_id: str, model: str) -> WrittenTurn:
        self._turn = WrittenTurn(run_id, model, self._under_way, FlowingText(self._console))
        return self._turn

    def show_output(self, output: object) -> None:
        """Show the turn's output, unless it was shown while it was written."""
        if not self.has_shown(output):
            self.end_line()
            text = output if isinstance(output, str) else to_json(output)
            for line in text.split("\n"):
                for part in (*self._turn.flow.add(line, ""), *self._turn.flow.end()):
                    self._print(Line(part))

    def _refresh(self) -> None:
        self._show_below([] if self._pauses else self._lines())

    def _stop(self) -> None:
        self._show_below([])

    def _room(self) -> int:
        return max(self._console.height - _ROOM, 1)


class WrittenTurn(Written):
    """The lines of a turn: without heads of iterations, for the text is what matters."""

    @property
    def flow(self) -> FlowingText:
        """The text on its way to the terminal."""
        return self._flow

    is_shown: Callable[[str], bool] = staticmethod(lambda text: False)
    """Whether a message that the run has read is on the terminal already."""
    _has_begun = False

    def writers(self) -> Writers:
        """With others where a conversation looks different."""
        return _WRITERS

    def _said_more(self, event: RunEvent) -> Iterator[Line]:
        if event.run_id is None:
            yield from self._flowing(event)

    def _read(self, event: RunEvent) -> Iterator[Line]:
        """What the run has read that was typed elsewhere."""
        if event.run_id is not None:
            return
        said = [each for change in event.operations if isinstance(change, Append) for each in change.messages]
        for message in said if self._has_begun else ():
            if message.role == "user" and not self.is_shown(message.text):
                yield Line(Text(visible(typed(message)), style="bold"), is_cut=False)
        self._has_begun = True

    def _head(self, event: RunEvent, figures: str = "") -> Iterator[Line]:
        yield from ()


_WRITERS: Writers = {
    **WRITERS,
    "token": WrittenTurn._said_more,
    "thinking": WrittenTurn._said_more,
    "messages_updated": WrittenTurn._read,
}
