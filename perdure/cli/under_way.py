"""Keeps what of a run is under way, its child runs' calls included, and lets its text flow to the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.text import Text

from ..events import RunEvent
from ..text import one_line, visible
from .console import describe_seconds, describe_step, progress_text
from .progress import SaidStatus

Key: TypeAlias = tuple[str | None, int, str | None]
"""The run, the iteration and the id of a tool call; without one, the call of the model."""


@dataclass
class Doing:
    """One thing that is under way."""

    what: str
    since: float
    """Seconds since the epoch."""
    depth: int
    """How many runs are above the one that does it."""
    state: str = ""
    """What is last known of it."""
    waits_since: float | None = None
    """Set while a person is waited for."""
    waited: float = 0.0
    """Seconds, for persons."""
    is_written: bool = False
    """Whether it has a line of its own already, because a run that it has called follows."""


class UnderWay:
    """Follows the events, which say what begins and what ends."""

    def __init__(self) -> None:
        self._doing: dict[Key, Doing] = {}
        self._depths: dict[str | None, int] = {None: 0}
        self._said = SaidStatus()

    def depth(self, run_id: str | None) -> int:
        """Return how many runs are above this one."""
        return self._depths.get(run_id, 1)

    def begin(self, key: Key, what: str, since: float) -> None:
        """Note that something begins."""
        self._doing[key] = Doing(what, since, self.depth(key[0]))

    def end(self, key: Key) -> Doing | None:
        """End what is under way with that key, and return it; None when its beginning was not shown."""
        return self._doing.pop(key, None)

    def find(self, key: Key) -> Doing | None:
        """Return what is under way with that key."""
        return self._doing.get(key)

    def start_child(self, event: RunEvent) -> None:
        """Indent a child run below the run that has called it."""
        self._depths[event.data["run_id"]] = self.depth(event.run_id) + 1

    def note_progress(self, event: RunEvent) -> None:
        """Note how far a tool is."""
        if doing := self.find(key_of(event)):
            doing.state = progress_text(event.data)

    def note_step(self, event: RunEvent) -> None:
        """Note which step a tool is executed in."""
        if doing := self.find(key_of(event)):
            doing.state = describe_step(event.data)

    def note_status(self, event: RunEvent) -> bool:
        """Note why a model call is held up; return whether that was not said before."""
        if doing := self.find((event.run_id, event.iteration, None)):
            doing.state = one_line(str(event.data.get("message", "")))
        return self._said.is_new(event)

    def await_person(self, event: RunEvent) -> None:
        """Note that a call waits for a person."""
        if doing := self.find(key_of(event)):
            doing.waits_since = event.time

    def resume(self, event: RunEvent) -> None:
        """Note that a person has decided."""
        doing = self.find(key_of(event))
        if doing and doing.waits_since is not None:
            doing.waited += event.time - doing.waits_since
            doing.waits_since = None

    def end_all(self) -> None:
        """End everything that is under way."""
        self._doing.clear()

    def lines(self, now: float, frame: str) -> list[Text]:
        """Return a line for each thing, in the order in which they began."""
        return [_line(doing, now, frame) for doing in self._doing.values()]


def key_of(event: RunEvent) -> Key:
    """Return the key of what the event is about."""
    return (event.run_id, event.iteration, event.call_id)


def time_taken(doing: Doing | None, event: RunEvent) -> str:
    """Return how long it has taken until this event, without waits for persons; "" where that is not known."""
    if not (doing and event.time and doing.since):
        return ""
    return describe_seconds(event.time - doing.since - doing.waited)


def indent(depth: int) -> str:
    """Before what a tool call at that depth has to say."""
    return "    " * (depth + 1)


def _line(doing: Doing, now: float, frame: str) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    if doing.waits_since is not None:
        line.append(f"{indent(doing.depth)}? ", style="bold yellow")
        line.append(f"{describe_seconds(now - doing.waits_since)} ", style="bold")
        line.append(f"waits for a person: {visible(doing.what)}", style="bold")
        return line
    line.append(f"{indent(doing.depth)}{frame} ", style="cyan")
    line.append(f"{describe_seconds(now - doing.since)} ", style="bold")
    line.append(visible(doing.what), style="cyan")
    if doing.state:
        line.append(f"  {visible(doing.state)}", style="dim")
    return line


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
        """End the text, or its style; return the line that was not complete."""
        text, self._text = self._text, ""
        return [self._line(text)] if text.strip() else []

    def partial(self) -> list[Text]:
        """Return the line that is not complete."""
        return [self._line(self._text)] if self._text.strip() else []

    def _line(self, text: str) -> Text:
        return Text(text, style=self._style)

    def _broken(self, text: str) -> list[str]:
        """Return the text in lines that fit, broken at blanks where there are any; at least one line."""
        width = max(self._console.width, 10)
        lines = []
        while cell_len(text) > width:
            fits = len(chop_cells(text, width)[0])
            end = text.rfind(" ", 1, fits + 1)
            lines.append(text[:end] if end > 0 else text[:fits])
            text = text[end + 1 :] if end > 0 else text[fits:]
        return [*lines, text]
