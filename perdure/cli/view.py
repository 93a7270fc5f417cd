"""Shows on a terminal what a run does: what is over stays above, what is under way is kept up to date below."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from rich.console import Group
from rich.live import Live
from rich.text import Text

from ..conversation import Append
from ..events import RunEvent
from ..messages import Message
from ..text import count_of, format_usd, one_line, visible
from .console import (
    describe_decision,
    describe_provider_tool,
    describe_seconds,
    describe_usage,
    short_call,
    to_json,
)
from .progress import SENTENCES, held_lines, request_lines
from .terminal import VisibleConsole
from .under_way import FlowingText, UnderWay, indent, key_of, time_taken


class Line(NamedTuple):
    """One paragraph; it wraps, unless it is cut to one line."""

    text: Text
    is_cut: bool = True


class Style(NamedTuple):
    """Form in which a run is shown: a list of iterations, or a turn of a conversation, where the text matters."""

    has_heads: bool = True
    """Whether each iteration has a head, with its model and figures."""
    kept_lines: int = 2
    """Lines of the terminal that what is under way leaves to the rest."""
    show_below: Callable[[list[Text]], None] | None = None
    """Shows what is under way; None for a live display of the view's own."""
    is_shown: Callable[[str], bool] | None = None
    """Whether a message that the run has read is on the terminal already; None shows no messages."""


ITERATIONS = Style()


class EventLines:
    """Makes lines of events, and notes in `under_way` what begins and ends."""

    def __init__(
        self, run_id: str, model: str, under_way: UnderWay, flow: FlowingText, style: Style = ITERATIONS
    ) -> None:
        self._run_id = run_id
        self._model = model
        self._under_way = under_way
        self._flow = flow
        self._style = style
        self._has_begun = False
        self._headed: tuple[str | None, int] = (None, 0)
        """The run and the iteration that the last head was about."""
        self._names: dict[str | None, str] = {}
        """Called run → the tool by which it was called."""
        self._failed: set[tuple[str | None, int, str | None]] = set()
        self._denied: set[tuple[str | None, int, str | None]] = set()
        self.last_text = ""
        """What the model has written since it was last called."""
        self._writers: dict[str, Callable[[RunEvent], Iterator[Line] | None]] = {
            "llm_start": self._model_called,
            "token": self._text,
            "thinking": self._text,
            "text_reset": self._begins_anew,
            "llm_complete": self._model_answered,
            "messages_updated": self._messages_read,
            **dict.fromkeys(SENTENCES, lambda event: _note(SENTENCES[event.type](event.data))),
            "provider_tool": lambda event: _note(describe_provider_tool(event.data), "dim", is_cut=True),
            "tool_call_start": self._tool_called,
            "tool_progress": under_way.note_progress,
            "progress": under_way.note_step,
            "child_started": self._child_started,
            "tool_result": self._tool_answered,
            "status": self._status,
            "compaction_complete": self._compaction,
            **dict.fromkeys(("error", "compaction_failed"), self._failure),
            "permission_requested": under_way.await_person,
            "permission_completed": self._decision,
            "held": self._hold_lines,
            "done": self._end,
            "cancelled": self._end,
            "failed": self._end,
        }

    def lines(self, event: RunEvent) -> Iterator[Line]:
        """Yield the lines that stay on the terminal because of this event."""
        write = self._writers.get(event.type)
        if write is None:
            return
        if event.type not in ("token", "thinking", "tool_progress"):
            yield from self.rest()
        yield from write(event) or ()

    def text(self, text: str) -> Iterator[Line]:
        """Yield the lines of a text that is complete."""
        for line in text.split("\n"):
            yield from (Line(part) for part in self._flow.add(line, ""))
            yield from self.rest()

    def rest(self) -> Iterator[Line]:
        """Yield the end of the text that was flowing."""
        yield from (Line(text) for text in self._flow.end())

    def partial(self) -> list[Text]:
        """Return the line of text that is not complete yet."""
        return self._flow.partial()

    def _hold_lines(self, event: RunEvent) -> Iterator[Line]:
        for line in held_lines(event, self._run_id):
            yield from _note(line)

    def _model_called(self, event: RunEvent) -> None:
        if event.run_id is None:
            self.last_text = ""
        name = self._names.get(event.run_id) or self._model
        what = f"iteration {event.iteration}" + (f": {name}" if name else "")
        self._under_way.begin((event.run_id, event.iteration, None), what, event.time)

    def _text(self, event: RunEvent) -> Iterator[Line]:
        if event.run_id is not None:
            return
        if call := self._under_way.find((None, event.iteration, None)):
            call.state = ""
        yield from self._head(event)
        text, is_thought = str(event.data.get("token", "")), event.type == "thinking"
        if not is_thought:
            self.last_text += text
        yield from (Line(line) for line in self._flow.add(text, "dim italic" if is_thought else ""))

    def _model_answered(self, event: RunEvent) -> Iterator[Line]:
        call = self._under_way.end((event.run_id, event.iteration, None))
        usage = event.data.get("usage") or {}
        figures = [time_taken(call, event), format_usd(event.data.get("costUsd")), describe_usage(usage)]
        figured = "  ".join(filter(None, figures))
        if self._headed == (event.run_id, event.iteration):
            yield Line(Text(f"    {figured}", style="dim"))
        else:
            yield from self._head(event, figured)

    def _head(self, event: RunEvent, figures: str = "") -> Iterator[Line]:
        """Yield the head of an iteration, once."""
        if not self._style.has_heads or self._headed == (event.run_id, event.iteration):
            return
        self._headed = (event.run_id, event.iteration)
        depth = self._under_way.depth(event.run_id)
        head = Text("    " * depth)
        head.append(f"{event.iteration:>2}  ", style="bold")
        head.append(visible(self._names.get(event.run_id) or self._model or "model"), style="bold")
        yield Line(head.append(f"  {figures}", style="dim"))

    def _messages_read(self, event: RunEvent) -> Iterator[Line]:
        """Yield the messages that the run has read and that were typed elsewhere."""
        if event.run_id is not None or self._style.is_shown is None:
            return
        read = [each for change in event.operations if isinstance(change, Append) for each in change.messages]
        for message in read if self._has_begun else ():
            if message.role == "user" and not self._style.is_shown(message.text):
                yield Line(Text(visible(typed_text(message)), style="bold"), is_cut=False)
        self._has_begun = True

    def _tool_called(self, event: RunEvent) -> None:
        what = short_call(event.data["name"], event.data.get("arguments"))
        self._under_way.begin(key_of(event), what, event.time)

    def _child_started(self, event: RunEvent) -> Iterator[Line]:
        self._under_way.start_child(event)
        run_id = event.data["run_id"]
        self._names[run_id] = str(event.data["name"])
        call = self._under_way.find(key_of(event))
        depth = self._under_way.depth(event.run_id)
        line = Text(f"{indent(depth)}↳ ").append(visible(call.what if call else event.data["name"]), style="cyan")
        if call:
            call.is_written = True
        yield Line(line)
        yield Line(Text(f"{indent(depth)}  run {visible(run_id)}", style="dim"))

    def _tool_answered(self, event: RunEvent) -> Iterator[Line]:
        key = key_of(event)
        call = self._under_way.end(key)
        what = call.what if call else event.data["name"]
        if call and call.is_written:
            what = event.data["name"]
        mark, style = "✓", "green"
        if key in self._failed or key in self._denied:
            mark, style = "✗", "red"
        self._failed.discard(key)
        self._denied.discard(key)
        depth = self._under_way.depth(event.run_id)
        line = Text(f"{indent(depth)}{mark} ", style=style)
        if took := time_taken(call, event):
            line.append(f"{took}  ", style="dim")
        line.append(visible(what), style="cyan")
        if call and call.waited:
            line.append(f"  after {describe_seconds(call.waited)} of waiting for a person", style="dim")
        yield Line(line)
        text = str(event.data.get("result", ""))
        lines = text.count("\n") + 1
        size = f"{count_of(lines, 'line')}: " if lines > 1 else ""
        yield Line(Text(f"{indent(depth)}  → {size}{visible(one_line(text, 300))}", style="dim"))

    def _failure(self, event: RunEvent) -> Iterator[Line]:
        if event.call_id is not None:
            self._failed.add(key_of(event))  # the result says it
        else:
            yield self._message(event, "red")

    def _status(self, event: RunEvent) -> Iterator[Line]:
        is_new = self._under_way.note_status(event)
        if is_new and event.run_id is None:
            if self._under_way.find((None, event.iteration, None)):
                yield from self._head(event)
            yield self._message(event, "yellow")

    def _message(self, event: RunEvent, style: str) -> Line:
        reason = one_line(str(event.data.get("reason", "")), 200)
        text = visible(f"{event.data.get('message', '')} {reason}".rstrip())
        return Line(Text(f"{indent(self._under_way.depth(event.run_id))}{text}", style=style), is_cut=False)

    def _compaction(self, event: RunEvent) -> Iterator[Line]:
        removed = count_of(event.data.get("removed", 0), "message")
        yield Line(Text(f"    context trimmed: {removed} summarised", style="dim"))

    def _begins_anew(self, event: RunEvent) -> Iterator[Line]:
        if event.run_id is None:
            self.last_text = ""
        yield Line(Text("    the model begins its text anew", style="dim"))

    def request(self, event: RunEvent) -> Iterator[Line]:
        """Yield what to type in another terminal, where nobody can be asked here."""
        call = short_call(event.data["name"], event.data.get("arguments"), 2000)
        waiting, *commands = request_lines(event, self._run_id, call)
        yield Line(Text(f"    {visible(waiting)}", style="bold"), is_cut=False)
        yield from (Line(Text(f"      {visible(command)}"), is_cut=False) for command in commands)

    def _decision(self, event: RunEvent) -> Iterator[Line]:
        self._under_way.resume(event)
        if not event.data.get("approved"):
            self._denied.add(key_of(event))
        depth = self._under_way.depth(event.run_id)
        yield Line(Text(f"{indent(depth)}{visible(describe_decision(event.data))}", style="bold"), is_cut=False)

    def _end(self, event: RunEvent) -> None:
        if event.run_id is None:
            self._under_way.end_all()


def _note(text: str, style: str = "yellow", *, is_cut: bool = False) -> Iterator[Line]:
    yield Line(Text(f"    {visible(text)}", style=style), is_cut)


def typed_text(message: Message) -> str:
    """Return a user's message as a terminal shows it."""
    first, *others = message.text.split("\n")
    return "\n".join([f"> {first}", *(f"  {other}" for other in others)])


_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAME_SECONDS = 0.2


class View:
    """Shows one event after another on stderr, which is a terminal.

    Args:
        run_id: The run that is watched.
        model: What its iterations are headed by; "" when that is not known.
        style: How it is shown.
    """

    def __init__(self, run_id: str, model: str = "", style: Style = ITERATIONS) -> None:
        self._console = VisibleConsole()
        self._under_way = UnderWay()
        self._style = style
        self._lines_of = EventLines(run_id, model, self._under_way, FlowingText(self._console), style)
        self._live: Live | None = None
        self._held: list[Line] = []
        self._pauses = 0
        self.shown = 0
        """How many events were shown."""

    def show(self, event: RunEvent) -> None:
        """Show the event, or what it changes."""
        self.shown += 1
        for line in self._lines_of.lines(event):
            self._print(line)
        self._refresh()

    def show_request(self, event: RunEvent) -> None:
        """Show what waits for a person, and what to type in another terminal."""
        for line in self._lines_of.request(event):
            self._print(line)
        self._refresh()

    @property
    def streamed_text(self) -> str:
        """Text that the model has written since it was last called; "" where text is not streamed."""
        return self._lines_of.last_text.strip()

    def has_shown(self, output: object) -> bool:
        """Return whether this is the text that was shown last."""
        return isinstance(output, str) and output.strip() == self.streamed_text

    def show_output(self, output: object) -> None:
        """Show the run's output, unless it was shown while it was written."""
        if not self.has_shown(output):
            self.end_line()
            for line in self._lines_of.text(output if isinstance(output, str) else to_json(output)):
                self._print(line)

    def end_line(self) -> None:
        """Show what is left; nothing is under way any more."""
        for line in self._lines_of.rest():
            self._print(line)
        self._stop()

    @contextmanager
    def pause(self) -> Iterator[None]:
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
        if self._style.show_below:
            self._style.show_below([] if self._pauses else self._lines())
            return
        if self._pauses or not self._console.is_terminal or self._console.is_dumb_terminal:
            return
        if not self._lines():
            self._stop()
        elif self._live is None:
            self._live = Live(
                get_renderable=lambda: Group(*self._lines()), console=self._console, auto_refresh=False, transient=True
            )
            self._live.start(refresh=True)
        else:
            self._live.refresh()

    def _stop(self) -> None:
        if self._style.show_below:
            self._style.show_below([])
        if self._live is not None:
            live, self._live = self._live, None
            live.stop()

    def _lines(self) -> list[Text]:
        """Return what is under way, in as many lines as the terminal has room for."""
        now = time.time()
        frame = _FRAMES[int(now / _FRAME_SECONDS) % len(_FRAMES)]
        lines = [*self._lines_of.partial(), *self._under_way.lines(now, frame)]
        room = max(self._console.height - self._style.kept_lines, 1)
        if len(lines) <= room:
            return lines
        more = Text(f"    … and {len(lines) - room + 1} more", style="dim")
        return [*lines[: room - 1], more]
