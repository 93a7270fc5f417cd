"""`perdure steer`: send a message to a run."""

from __future__ import annotations

from typing import Annotated

import typer

from . import options
from .console import say
from .problems import Failure
from .running import execute
from .session import open_run


def steer(id: options.RunId, text: Annotated[str, typer.Argument(help="What the agent is to read.")]) -> None:
    """Send a message to a run.

    The agent reads it before its next model call.
    """
    execute(_steer(id, text))


async def _steer(run_id: str, text: str) -> None:
    async with open_run(run_id) as (session, handle):
        if await session.has_ended(run_id):
            raise Failure(f"run {run_id} has ended and reads no more messages: perdure result {run_id} shows how")
        await handle.steer(text)
        say(f"Sent to run {run_id}. Watch it: perdure watch {run_id}")
