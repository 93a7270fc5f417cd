"""`perdure deny`: refuse a waiting tool call."""

from __future__ import annotations

from typing import Annotated

import typer

from . import options
from .approvals import waiting_call
from .console import describe_call, say
from .running import execute
from .session import open_run


def deny(
    id: options.RunId,
    call: options.CallId = None,
    reason: Annotated[str, typer.Option(help="Why; the model reads it.")] = "denied by a person",
) -> None:
    """Refuse a waiting tool call.

    The model is told why, and the run goes on.
    """
    execute(_deny(id, call, reason))


async def _deny(run_id: str, call_id: str | None, reason: str) -> None:
    async with open_run(run_id) as (_, handle):
        pending = await waiting_call(handle, call_id)
        await handle.deny(pending.call_id, reason)
        call = describe_call(pending.name, pending.arguments)
        say(f"Denied {call} of run {run_id}. Watch it: perdure result {run_id} --follow")
