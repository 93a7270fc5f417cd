"""`perdure steer` and `perdure cancel`: act on a run from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from . import options as arguments
from .console import say
from .existing import open_run
from .problems import Failure
from .running import execute

if TYPE_CHECKING:
    from temporalio.client import Client


def steer(id: arguments.RunId, text: Annotated[str, typer.Argument(help="What the agent shall read.")]) -> None:
    """Send a message to a run.

    The agent reads it before its next model call.
    """
    execute(_steer(id, text))


def cancel(
    id: arguments.RunId,
    reason: Annotated[str, typer.Option(help="Why, for those who look at the run later.")] = "",
) -> None:
    """Cancel a run.

    A tool that is being executed is awaited; no other and no model call is started.
    """
    execute(_cancel(id, reason))


async def _steer(run_id: str, text: str) -> None:
    async with open_run(run_id) as (session, handle):
        if await _is_closed(session.client, run_id):
            raise Failure(f"run {run_id} has ended and reads nothing any more: perdure result {run_id} shows its end")
        await handle.steer(text)
        say(f"Sent to run {run_id}. Watch it: perdure result {run_id} --follow")


async def _cancel(run_id: str, reason: str) -> None:
    async with open_run(run_id) as (session, handle):
        if await _is_closed(session.client, run_id):
            raise Failure(f"run {run_id} has ended already: perdure result {run_id} shows its end")
        await handle.cancel(reason)
        say(f"Cancellation of run {run_id} requested. See its end: perdure result {run_id} --follow")


async def _is_closed(client: Client, run_id: str) -> bool:
    return (await client.get_workflow_handle(run_id).describe()).close_time is not None
