"""Follows a run in the foreground: its events go to stderr, its answer to stdout."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from ..errors import RunError
from .asking import asking
from .console import answer, say
from .going_on import say_how_to_go_on
from .problems import DONE, FAILED
from .progress import Progress
from .task_queue import mention_missing_worker
from .waiting import waiting_shown

if TYPE_CHECKING:
    from ..client import RunHandle
    from ..events import RunEvent
    from ..protocol.outcome import RunResult
    from .session import Session

_LAST_EVENTS_SECONDS = 5.0
"""What the last events get to be shown after the run has ended."""


async def follow(session: Session, handle: RunHandle, *, quiet: bool, as_json: bool) -> int:
    """Wait for the run and print its result; returns the exit code. Says so when no worker takes the run up."""
    progress = Progress(handle.id)
    try:
        async with AsyncExitStack() as stack:
            stack.enter_context(waiting_shown())
            if not quiet:
                await stack.enter_async_context(
                    _alongside(_show_events(handle, progress), patience=_LAST_EVENTS_SECONDS)
                )
            await stack.enter_async_context(_alongside(mention_missing_worker(session.client, handle.id)))
            result = await handle.result()
    except RunError as error:
        progress.end_line()
        code = _print_failure(handle, error, as_json=as_json)
        await say_how_to_go_on(session.client, handle.id, error)
        return code
    progress.end_line()
    _print_result(handle, result, as_json=as_json)
    return DONE


def _print_result(handle: RunHandle, result: RunResult, *, as_json: bool) -> None:
    """Print the answer alone or, as JSON, everything that a program may want to know."""
    if as_json:
        answer({"id": handle.id, "status": "done", **result.model_dump(mode="json", by_alias=True)})
        return
    answer(result.output)
    if result.is_incomplete:
        say(f"Run {handle.id} reached a limit: this result is incomplete.", "bad")
        say(f'  go on from there: perdure run --continue {handle.id} "go on"')


def _print_failure(handle: RunHandle, error: RunError, *, as_json: bool) -> int:
    if as_json:
        status = "cancelled" if error.kind == "cancelled" else "failed"
        answer({"id": handle.id, "status": status, "kind": error.kind, "reason": error.reason, "message": str(error)})
    say(f"Run {handle.id} ended without a result ({error.kind}): {error}", "bad")
    say(f"  what it did: perdure events {handle.id}    what was said: perdure messages {handle.id}", "faint")
    return FAILED


@asynccontextmanager
async def _alongside(aid: Coroutine[Any, Any, None], *, patience: float = 0.0) -> AsyncIterator[None]:
    """Do `aid` while the block runs; unless the block is cancelled, it gets `patience` seconds to finish afterwards.

    What goes wrong in it is mentioned, and does not affect the block.
    """
    task = asyncio.create_task(aid)
    try:
        yield
    except asyncio.CancelledError:
        task.cancel()
        raise
    finally:
        await asyncio.wait([task], timeout=patience)
        task.cancel()
        if task.done() and not task.cancelled() and (error := task.exception()):
            say(f"  the progress can't be shown: {error}", "faint")


async def _show_events(handle: RunHandle, progress: Progress) -> None:
    async with asking(handle) as asker:
        async for event in handle.stream(children=True):
            if asker and event.type == "permission_completed":
                asker.settle(event)
            if event.type != "permission_requested":
                progress.show(event)
            elif asker:
                asker.ask(event)
            elif await _still_waits(handle, event):
                progress.show(event)


async def _still_waits(handle: RunHandle, event: RunEvent) -> bool:
    """Whether the call still waits for an approval: in a run that is followed later, it was decided long ago."""
    waiting = {(each.run_id, each.digest) for each in (await handle.status()).pending_approvals}
    return (event.run_id, event.data.get("digest")) in waiting
