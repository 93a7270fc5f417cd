"""A console of rich's that nothing acts on but its own styles."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from ..excerpt import visible


class VisibleConsole(Console):
    """Escapes the control characters in everything that is printed; colours and cursor movements of rich's stay.

    Whoever counts the columns of a text escapes it before that: this is for what was forgotten.
    """

    def __init__(self, *, stderr: bool = True) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The parts that are written."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible(text), style, control)
