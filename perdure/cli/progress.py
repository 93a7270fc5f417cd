"""Shows on stderr a run's progress, as it happens: as lines, or above the prompt of a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..events import RunEvent
from ..text import visible
from .console import Tone, say, to_json
from .lines import Line, Story, request_lines
from .screen import Screen


class Progress:
    """Shows one event after another; streamed text continues its line until something else ends it.

    Args:
        run_id: The watched run.
        screen: The terminal with a prompt; None for lines alone.
        is_shown: As in `Story`.
    """

    def __init__(
        self,
        run_id: str,
        screen: Screen | None = None,
        is_shown: Callable[[str], bool] | None = None,
    ) -> None:
        self._run_id = run_id
        self._screen = screen
        self._story = Story(run_id, is_live=screen is not None, is_shown=is_shown)
        self._partial = ""
        """The unfinished line."""
        self._kind = ""
        """The type of the events with its text."""
        self._text = ""
        self.shown = 0
        """How many events were shown."""
        if screen:
            screen.below = self._below

    @property
    def streamed_text(self) -> str:
        """The text of the last model call; "" where text is not streamed."""
        return self._text.strip()

    def show(self, event: RunEvent) -> None:
        """Write the event; types that matter to programs only are left out."""
        self.shown += 1
        if event.run_id is None and event.type in ("llm_start", "text_reset"):
            self._text = ""
        if event.type not in ("token", "thinking"):
            self._write(self._story.lines(event))
        elif event.run_id is None:
            self._stream(event.type, str(event.data.get("token", "")))

    def show_request(self, event: RunEvent) -> None:
        """Write a waiting call, and the commands for another terminal."""
        self._write(request_lines(event, self._run_id))

    def show_output(self, output: object) -> None:
        """Write the run's output, unless it was streamed."""
        self.end_line()
        text = output if isinstance(output, str) else to_json(output)
        if text.strip() != self.streamed_text:
            say(text)

    def end_line(self) -> None:
        """End the unfinished line, if there is one."""
        text, self._partial = self._partial, ""
        if text:
            say(text if self._screen else "", self._tone)

    @property
    def _tone(self) -> Tone:
        return "plain" if self._kind == "token" and self._screen else "faint"

    def _write(self, lines: Iterator[Line]) -> None:
        for line in lines:
            self.end_line()
            say(*line)

    def _stream(self, kind: str, token: str) -> None:
        if kind != self._kind:
            self.end_line()
        self._kind = kind
        self._text += token if kind == "token" else ""
        if self._screen is None:
            say(token, self._tone, end="")
            self._partial = token
            return
        *whole, self._partial = (self._partial + token).split("\n")
        for line in whole:
            say(line, self._tone)

    def _below(self) -> list[Line]:
        """Return the lines of the current calls, and the unfinished line of the answer."""
        text, width = visible(self._partial), self._screen.columns if self._screen else 80
        starts = range(0, len(text), width)
        unfinished = [Line(text[start : start + width], self._tone) for start in starts]
        return [*self._story.under_way(), *unfinished]
