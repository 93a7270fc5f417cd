"""Shows on a terminal what a run does: what is over stays above, what is under way is kept up to date below."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

from rich.console import Group
from rich.live import Live
from rich.text import Text

from ..commands import decision_command, denial_command
from ..events import RunEvent
from ..text import counted, format_usd, one_line, visible
from .console import (
    describe_decision,
    describe_fallback,
    describe_provider_tool,
    describe_seconds,
    describe_usage,
    describe_warning,
    short_call,
)
from .terminal import VisibleConsole
from .under_way import Doing, FlowingText, UnderWay, indent, key_of


class Line(NamedTuple):
    """One paragraph; it wraps, unless it is cut to one line."""

    text: Text
    is_cut: bool = True


class Written:
    """Makes lines of events; what begins and ends is noted in `under_way`."""

    def __init__(self, run_id: str, model: str, under_way: UnderWay, flow: FlowingText) -> None:
        self._run_id = run_id
        self._model = model
        self._under_way = under_way
        self._flow = flow
        self._headed: tuple[str | None, int] = (None, 0)
        """The run and the iteration that the last head was about."""
        self._names: dict[str | None, str] = {}
        """Called run → the tool by which it was called."""
        self._failed: set[tuple[str | None, int, str | None]] = set()
        self._denied: set[tuple[str | None, int, str | None]] = set()
        self.last_text = ""
        """What the model has written since it was last called."""

    def lines(self, event: RunEvent) -> Iterator[Line]:
        """What stays on the terminal because of this event."""
        write = self.writers().get(event.type)
        if write is None:
            return
        if event.type not in ("token", "thinking", "tool_progress"):
            yield from self.rest()
        yield from write(self, event)

    def writers(self) -> Writers:
        """What makes the lines, by type of event; the others have none."""
        return WRITERS

    def rest(self) -> Iterator[Line]:
        """The end of the text that was flowing."""
        yield from (Line(text) for text in self._flow.end())

    def partial(self) -> list[Text]:
        """The line of text that is not complete yet."""
        return self._flow.partial()

    def _model_called(self, event: RunEvent) -> Iterator[Line]:
        if event.run_id is None:
            self.last_text = ""
        name = self._names.get(event.run_id) or self._model
        what = f"iteration {event.iteration}" + (f": {name}" if name else "")
        self._under_way.began((event.run_id, event.iteration, None), what, event.time)
        yield from ()

    def _text(self, event: RunEvent) -> Iterator[Line]:
        if event.run_id is not None:
            return
        if call := self._under_way.of((None, event.iteration, None)):
            call.state = ""
        yield from self._head(event)
        yield from self._flowing(event)

    def _flowing(self, event: RunEvent) -> Iterator[Line]:
        """The lines that are complete with this piece of text."""
        text, is_thought = str(event.data.get("token", "")), event.type == "thinking"
        if not is_thought:
            self.last_text += text
        yield from (Line(line) for line in self._flow.add(text, "dim italic" if is_thought else ""))

    def _model_answered(self, event: RunEvent) -> Iterator[Line]:
        call = self._under_way.ended((event.run_id, event.iteration, None))
        usage = event.data.get("usage") or {}
        figures = [_took(call, event), format_usd(event.data.get("costUsd")), describe_usage(usage)]
        figured = "  ".join(filter(None, figures))
        if self._headed == (event.run_id, event.iteration):
            yield Line(Text(f"    {figured}", style="dim"))
        else:
            yield from self._head(event, figured)

    def _head(self, event: RunEvent, figures: str = "") -> Iterator[Line]:
        """The head of an iteration, once."""
        if self._headed == (event.run_id, event.iteration):
            return
        self._headed = (event.run_id, event.iteration)
        depth = self._under_way.depth(event.run_id)
        head = Text("    " * depth)
        head.append(f"{event.iteration:>2}  ", style="bold")
        head.append(visible(self._names.get(event.run_id) or self._model or "model"), style="bold")
        yield Line(head.append(f"  {figures}", style="dim"))

    def _tool_called(self, event: RunEvent) -> Iterator[Line]:
        what = short_call(event.data["name"], event.data.get("arguments"))
        self._under_way.began(key_of(event), what, event.time)
        yield from ()

    def _child_started(self, event: RunEvent) -> Iterator[Line]:
        self._under_way.called(event)
        run_id = event.data["run_id"]
        self._names[run_id] = str(event.data["name"])
        call = self._under_way.of(key_of(event))
        depth = self._under_way.depth(event.run_id)
        line = Text(f"{indent(depth)}↳ ").append(visible(call.what if call else event.data["name"]), style="cyan")
        if call:
            call.is_written = True
        yield Line(line)
        yield Line(Text(f"{indent(depth)}  run {visible(run_id)}", style="dim"))

    def _tool_answered(self, event: RunEvent) -> Iterator[Line]:
        key = key_of(event)
        call = self._under_way.ended(key)
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
        if took := _took(call, event):
            line.append(f"{took}  ", style="dim")
        line.append(visible(what), style="cyan")
        if call and call.waited:
            line.append(f"  after {describe_seconds(call.waited)} of waiting for a person", style="dim")
        yield Line(line)
        text = str(event.data.get("result", ""))
        lines = text.count("\n") + 1
        size = f"{counted(lines, 'line')}: " if lines > 1 else ""
        yield Line(Text(f"{indent(depth)}  → {size}{visible(one_line(text, 300))}", style="dim"))

    def _failure(self, event: RunEvent) -> Iterator[Line]:
        if event.call_id is not None:
            self._failed.add(key_of(event))  # the result says it
        else:
            yield self._said(event, "red")

    def _status(self, event: RunEvent) -> Iterator[Line]:
        self._under_way.status(event)
        if event.run_id is None:
            if self._under_way.of((None, event.iteration, None)):
                yield from self._head(event)
            yield self._said(event, "yellow")

    def _said(self, event: RunEvent, style: str) -> Line:
        text = visible(str(event.data.get("message", "")))
        return Line(Text(f"{indent(self._under_way.depth(event.run_id))}{text}", style=style), is_cut=False)

    def _cost_warning(self, event: RunEvent) -> Iterator[Line]:
        yield Line(Text(f"    {describe_warning(event.data)}", style="yellow"), is_cut=False)

    def _model_replaced(self, event: RunEvent) -> Iterator[Line]:
        yield Line(Text(f"    {visible(describe_fallback(event.data))}", style="yellow"), is_cut=False)

    def _provider_tool(self, event: RunEvent) -> Iterator[Line]:
        yield Line(Text(f"    {visible(describe_provider_tool(event.data))}", style="dim"))

    def _compacted(self, event: RunEvent) -> Iterator[Line]:
        removed = counted(event.data.get("removed", 0), "message")
        yield Line(Text(f"    context trimmed: {removed} summarised", style="dim"))

    def _begins_anew(self, event: RunEvent) -> Iterator[Line]:
        if event.run_id is None:
            self.last_text = ""
        yield Line(Text("    the model begins its text anew", style="dim"))

    def _asked(self, event: RunEvent) -> Iterator[Line]:
        self._under_way.asked(event)
        yield from ()

    def request(self, event: RunEvent) -> Iterator[Line]:
        """What to type in another terminal, where nobody can be asked here."""
        run_id, kind = event.run_id or self._run_id, event.data.get("kind", "approval")
        what = "an answer" if kind == "question" else "approval"
        reason = f" ({visible(one_line(event.data['reason']))})" if event.data.get("reason") else ""
        call = visible(short_call(event.data["name"], event.data.get("arguments"), 2000))
        yield Line(Text(f"    {call} waits for {what}{reason}. In another terminal:", style="bold"), is_cut=False)
        named = (run_id, str(event.call_id), event.data.get("digest"))
        yield Line(Text(f"      {visible(decision_command(*named, kind=kind))}"), is_cut=False)
        yield Line(Text(f"      {visible(denial_command(*named))}"), is_cut=False)

    def _decided(self, event: RunEvent) -> Iterator[Line]:
        self._under_way.decided(event)
        if not event.data.get("approved"):
            self._denied.add(key_of(event))
        depth = self._under_way.depth(event.run_id)
        yield Line(Text(f"{indent(depth)}{visible(describe_decision(event.data))}", style="bold"), is_cut=False)

    def _progress(self, event: RunEvent) -> Iterator[Line]:
        self._under_way.progress(event)
        yield from ()

    def _step(self, event: RunEvent) -> Iterator[Line]:
        self._under_way.step(event)
        yield from ()

    def _ended(self, event: RunEvent) -> Iterator[Line]:
        if event.run_id is None:
            self._under_way.end_all()
        yield from ()


def _took(doing: Doing | None, event: RunEvent) -> str:
    if not (doing and event.time and doing.since):
        return ""
    return describe_seconds(event.time - doing.since - doing.waited)


Writers: TypeAlias = Mapping[str, Callable[[Any, "RunEvent"], Iterator[Line]]]

WRITERS: Writers = {
    "llm_start": Written._model_called,
    "token": Written._text,
    "thinking": Written._text,
    "text_reset": Written._begins_anew,
    "llm_complete": Written._model_answered,
    "cost_warning": Written._cost_warning,
    "model_fallback": Written._model_replaced,
    "provider_tool": Written._provider_tool,
    "tool_call_start": Written._tool_called,
    "tool_progress": Written._progress,
    "progress": Written._step,
    "child_started": Written._child_started,
    "tool_result": Written._tool_answered,
    "status": Written._status,
    "error": Written._failure,
    "compaction_complete": Written._compacted,
    "compaction_failed": Written._failure,
    "permission_requested": Written._asked,
    "permission_completed": Written._decided,
    "done": Written._ended,
    "cancelled": Written._ended,
    "failed": Written._ended,
}

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
