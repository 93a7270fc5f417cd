"""`perdure events`: prints a run's events, one per line."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from ..client import RunHandle
from ..events import RunEvent, as_changes
from ..text import one_line
from . import shared_options as options
from .command import execute
from .console import answer, to_json
from .lines import sentence
from .problems import UsageProblem
from .recorded_run import open_run, waiting_shown


def events(
    id: options.RunId,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the run ends.")
    ] = False,
    after: Annotated[
        str, typer.Option(metavar="POSITION", help="Only events after this position or number.")
    ] = "0",
    children: Annotated[
        bool, typer.Option("--children", help="Those of the agents that it has called, too.")
    ] = False,
    as_json: options.AsJson = False,
    whole_messages: Annotated[
        bool,
        typer.Option(
            "--whole-messages", help="With --json: the whole conversation wherever it has changed."
        ),
    ] = False,
) -> None:
    """Print a run's events, one per line.

    Runs that have ended keep their events. As JSON, an event lists the operations that changed the
    conversation.
    """
    write = _line
    if as_json:
        write = _whole if whole_messages else _changes
    execute(_events(id, follow, after, children, write))


async def _events(
    run_id: str, follow: bool, after: str, children: bool, write: Callable[[RunEvent], str]
) -> None:
    async with open_run(run_id) as (_, handle):
        with waiting_shown(), _position_refused():
            async for event in _events_of(handle, follow, after, children):
                answer(write(event))


@contextmanager
def _position_refused() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise UsageProblem(f"--after: {error}") from error


def _changes(event: RunEvent) -> str:
    return to_json(as_changes(event), indent=None)


def _whole(event: RunEvent) -> str:
    return to_json(event.model_dump(mode="json"), indent=None)


async def _events_of(
    handle: RunHandle, follow: bool, after: str, children: bool
) -> AsyncIterator[RunEvent]:
    if not follow:
        for event in await handle.events(after, children=children):
            yield event
        return
    async for event in handle.stream(after, children=children):
        yield event


def _line(event: RunEvent) -> str:
    """`seq  iteration  type  what the data says`, cut to fit a line."""
    words = one_line(sentence(event), 120)
    line = f"{event.seq:>5}  {event.iteration:>3}  {event.type:<20}  {words}".rstrip()
    return f"{line}  [{event.run_id}]" if event.run_id else line
