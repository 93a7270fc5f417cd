"""Shows on a terminal what a run does: what is over stays above, what is under way is kept up to date below."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.text import Text

from .flowing import FlowingText
from .under_way import UnderWay
from .visible_console import VisibleConsole
from .written import Line, Written

if TYPE_CHECKING:
    from ..events import RunEvent

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAME_SECONDS = 0.2


class View:
    """Shows one event after another on stderr, which is a terminal.

    Args:
        run_id: The run that is watched.
        model: What its iterations are headed by; "" when that is not known.
    """

    def __init__(self, run_id: str, model: str = "") -> None:
        self._console = VisibleConsole()
        self._under_way = UnderWay()
        self._written = self._writer(run_id, model)
        self._live: Live | None = None
        self._held: list[Line] = []
        self._pauses = 0
        self.shown = 0
        """How many events were shown."""

    def _writer(self, run_id: str, model: str) -> Written:
        return Written(run_id, model, self._under_way, FlowingText(self._console))

    def show(self, event: RunEvent) -> None:
        """Show the event, or what it changes."""
        self.shown += 1
        for line in self._written.lines(event):
            self._print(line)
        self._refresh()

    def show_request(self, event: RunEvent) -> None:
        """Show what waits for a person, and what to type in another terminal."""
        for line in self._written.request(event):
            self._print(line)
        self._refresh()

    @property
    def streamed(self) -> str:
        """What the model has written since it was last called, for all to see; "" where text is not streamed."""
        return self._written.last_text.strip()

    def has_shown(self, output: object) -> bool:
        """Whether this is the text that was shown last."""
        return isinstance(output, str) and output.strip() == self.streamed

    def end_line(self) -> None:
        """Show what is left; nothing is under way any more."""
        for line in self._written.rest():
            self._print(line)
        self._stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Within it nothing is written; what was to be written follows afterwards."""
        self._stop()
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                held, self._held = self._held, []
                for line in held:
                    self._print(line)
                self._refresh()

    async def animate(self) -> None:
        """Keep what is under way up to date until this is cancelled."""
        try:
            while True:
                self._refresh()
                await asyncio.sleep(_FRAME_SECONDS)
        finally:
            self._stop()

    def _print(self, line: Line) -> None:
        if self._pauses:
            self._held.append(line)
        else:
            self._console.print(line.text, no_wrap=line.is_cut, overflow="ellipsis" if line.is_cut else "fold")

    def _refresh(self) -> None:
        if self._pauses or not self._console.is_terminal or self._console.is_dumb_terminal:
            return
        if not self._lines():
            self._stop()
        elif self._live is None:
            self._live = Live(get_renderable=self._below, console=self._console, auto_refresh=False, transient=True)
            self._live.start(refresh=True)
        else:
            self._live.refresh()

    def _stop(self) -> None:
        if self._live is not None:
            live, self._live = self._live, None
            live.stop()

    def _below(self) -> Group:
        return Group(*self._lines())

    def _lines(self) -> list[Text]:
        """What is under way, in as many lines as the terminal has room for."""
        now = time.time()
        frame = _FRAMES[int(now / _FRAME_SECONDS) % len(_FRAMES)]
        lines = [*self._written.partial(), *self._under_way.lines(now, frame)]
        room = self._room()
        if len(lines) <= room:
            return lines
        more = Text(f"    … and {len(lines) - room + 1} more", style="dim")
        return [*lines[: room - 1], more]

    def _room(self) -> int:
        return max(self._console.height - 2, 1)
