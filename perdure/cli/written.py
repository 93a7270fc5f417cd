"""The lines that a terminal keeps of what a run does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from rich.text import Text

from ..decision_commands import decision_command, denial_command
from ..excerpt import counted, one_line, visible
from ..money import format_usd
from .call_text import short_call
from .console import (
    describe_decision,
    describe_fallback,
    describe_provider_tool,
    describe_seconds,
    describe_usage,
    describe_warning,
)
from .flowing import FlowingText
from .under_way import Doing, UnderWay, indent, key_of

if TYPE_CHECKING:
    from ..events import RunEvent


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
