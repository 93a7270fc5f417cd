"""`perdure status`, `events` and `messages`: what a run is doing, did, and said."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options as arguments
from .console import answer, say, shorten, to_json
from .existing import open_run
from .progress import describe_call
from .running import execute

if TYPE_CHECKING:
    from ..client import RunHandle
    from ..events import RunEvent
    from ..messages import Message


def status(id: arguments.RunId, as_json: arguments.AsJson = False) -> None:
    """Print where a run stands."""
    execute(_status(id, as_json))


def events(
    id: arguments.RunId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run ends.")] = False,
    after: Annotated[int, typer.Option(min=0, metavar="SEQ", help="Only what came after this event.")] = 0,
    as_json: arguments.AsJson = False,
) -> None:
    """Print what a run did, one event to a line.

    Runs that have ended keep their events.
    """
    execute(_events(id, follow, after, as_json))


def messages(id: arguments.RunId, as_json: arguments.AsJson = False) -> None:
    """Print the conversation of a run.

    Runs that have ended keep theirs.
    """
    execute(_messages(id, as_json))


async def _status(run_id: str, as_json: bool) -> None:
    async with open_run(run_id) as (_, handle):
        found = await handle.status()
    if as_json:
        answer(found.model_dump(mode="json", by_alias=True))
        return
    usage = found.usage
    answer(f"{found.status}, iteration {found.iteration}, {found.model_calls} model calls")
    answer(f"tokens: {usage.input_tokens} in, {usage.output_tokens} out")
    for pending in found.pending_approvals:
        answer(f"waits for a verdict: {pending.name}, perdure approve {run_id} {pending.call_id}")


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
    """`seq  iteration  type  what the data says, short`."""
    return f"{event.seq:>5}  {event.iteration:>3}  {event.type:<20}  {shorten(_summary(event.data), 120)}".rstrip()


def _summary(data: dict[str, Any]) -> str:
    if "arguments" in data:
        return describe_call(data)
    if usage := data.get("usage"):
        return f"{usage['input_tokens']} tokens in, {usage['output_tokens']} out"
    return "  ".join(str(value) for name, value in data.items() if name != "messages")


async def _messages(run_id: str, as_json: bool) -> None:
    async with open_run(run_id) as (_, handle):
        said = await handle.messages()
    if as_json:
        answer([message.model_dump(mode="json", by_alias=True) for message in said])
        return
    for message in said:
        answer(_paragraph(message))
    say(f"{len(said)} messages", "faint")


def _paragraph(message: Message) -> str:
    calls = "".join(f"\n  → {describe_call({'name': c.name, 'arguments': c.arguments})}" for c in message.tool_calls)
    others = "".join(f"\n  [{part.kind}]" for part in message.parts if part.kind != "text")
    return f"[{message.role}] {message.text}{others}{calls}\n"
