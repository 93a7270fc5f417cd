"""`perdure events`: prints a run's events, one per line."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from ..client import RunHandle
from ..events import RunEvent, as_changes
from ..text import one_line
from .console import answer, to_json
from .given import Given
from .lines import sentence
from .problems import UsageProblem
from .recorded_run import open_run, waiting_shown


async def events(given: Given) -> None:
    """Print the events. Raises `UsageProblem` for an invalid position."""
    write: Callable[[RunEvent], str] = _line
    if given.as_json:
        write = _whole if given.whole_messages else _changes
    async with open_run(given.id) as (_, handle):
        with waiting_shown():
            async for event in _events_of(handle, given):
                answer(write(event))


async def _events_of(handle: RunHandle, given: Given) -> AsyncIterator[RunEvent]:
    try:
        if given.follow:
            async for event in handle.stream(given.after, children=given.children):
                yield event
        else:
            for event in await handle.events(given.after, children=given.children):
                yield event
    except ValueError as error:
        raise UsageProblem(f"--after: {error}") from error


def _changes(event: RunEvent) -> str:
    return to_json(as_changes(event), indent=None)


def _whole(event: RunEvent) -> str:
    return to_json(event.model_dump(mode="json"), indent=None)


def _line(event: RunEvent) -> str:
    """Return `seq  iteration  type  sentence`, cut to fit a line."""
    words = one_line(sentence(event), 120)
    line = f"{event.seq:>5}  {event.iteration:>3}  {event.type:<20}  {words}".rstrip()
    return f"{line}  [{event.run_id}]" if event.run_id else line
