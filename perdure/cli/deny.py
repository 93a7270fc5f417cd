"""`perdure deny`: refuse a waiting tool call."""

from __future__ import annotations

from typing import Annotated

import typer

from ..shell import command_line
from . import options
from .approvals import DENIED, call_to_decide, this_user
from .console import answer, say
from .running import execute
from .session import open_run


def deny(
    id: options.OpenRunId,
    call: options.CallId = None,
    reason: Annotated[str, typer.Option(help="Why; the model reads it.")] = DENIED,
    digest: options.Digest = None,
    by: options.By = None,
    as_json: options.AsJson = False,
) -> None:
    """Refuse a waiting tool call.

    The model is told why, and the run goes on.
    """
    execute(_deny(id, call, reason, digest, by, as_json))


async def _deny(
    run_id: str, call_id: str | None, reason: str, digest: str | None, by: str | None, as_json: bool
) -> None:
    async with open_run(run_id) as (_, handle):
        run_id = handle.id
        call = await call_to_decide(handle, call_id, digest)
        await call.run.deny(call.id, reason, digest=call.digest, by=by or this_user())
        say(f"Denied {call.shown} of run {call.run.id}. Watch it: {command_line('watch', run_id)}")
        if as_json:
            answer({**call.told("deny"), "reason": reason})
