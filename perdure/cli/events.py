"""`perdure events`: print what a run did, one event per line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..excerpt import one_line
from . import options
from .console import answer, describe_call, to_json
from .running import execute
from .session import open_run

if TYPE_CHECKING:
    from ..client import RunHandle
    from ..events import RunEvent


def events(
    id: options.RunId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run ends.")] = False,
    after: Annotated[int, typer.Option(min=0, metavar="SEQ", help="Only the events after this one.")] = 0,
    as_json: options.AsJson = False,
) -> None:
    """Print what a run did, one event per line.

    Runs that have ended keep their events.
    """
    execute(_events(id, follow, after, as_json))


async def _events(run_id: str, follow: bool, after: int, as_json: bool) -> None:
    async with open_run(run_id) as (_, handle):
        async for event in _chosen(handle, follow, after):
            answer(to_json(event.model_dump(mode="json"), indent=None) if as_json else _line(event))


async def _chosen(handle: RunHandle, follow: bool, after: int) -> AsyncIterator[RunEvent]:
    if not follow:
        for event in await handle.events(after):
            yield event
        return
    async for event in handle.stream(after):
        yield event


def _line(event: RunEvent) -> str:
    """`seq  iteration  type  what the data says`, cut to fit a line."""
    return f"{event.seq:>5}  {event.iteration:>3}  {event.type:<20}  {one_line(_summary(event.data), 120)}".rstrip()


def _summary(data: dict[str, Any]) -> str:
    if "arguments" in data:
        return describe_call(data["name"], data["arguments"])
    if usage := data.get("usage"):
        return f"{usage['input_tokens']} tokens in, {usage['output_tokens']} out"
    return "  ".join(str(value) for name, value in data.items() if name != "messages")
