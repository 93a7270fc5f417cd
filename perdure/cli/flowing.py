"""Text that a model writes, on its way to the terminal: whole lines go up, the last one grows."""

from __future__ import annotations

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.text import Text

from ..excerpt import visible


class FlowingText:
    """Breaks text into lines of the terminal's width as it comes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._text = ""
        self._style = ""

    def add(self, text: str, style: str) -> list[Text]:
        """More text; returns the lines that are complete now."""
        done = self.end() if style != self._style else []
        self._style = style
        *whole, rest = (self._text + visible(text).expandtabs(4)).split("\n")
        for line in whole:
            done += map(self._line, self._broken(line))
        *full, self._text = self._broken(rest)
        return [*done, *map(self._line, full)]

    def end(self) -> list[Text]:
        """The text ends, or goes on in another style; returns the line that was not complete."""
        text, self._text = self._text, ""
        return [self._line(text)] if text.strip() else []

    def partial(self) -> list[Text]:
        """The line that is not complete."""
        return [self._line(self._text)] if self._text.strip() else []

    def _line(self, text: str) -> Text:
        return Text(text, style=self._style)

    def _broken(self, text: str) -> list[str]:
        """The text in lines that fit, broken at blanks where there are any; at least one line."""
        width = max(self._console.width, 10)
        lines = []
        while cell_len(text) > width:
            fits = len(chop_cells(text, width)[0])
            end = text.rfind(" ", 1, fits + 1)
            lines.append(text[:end] if end > 0 else text[:fits])
            text = text[end + 1 :] if end > 0 else text[fits:]
        return [*lines, text]
