"""`perdure approve`: let a waiting tool call be executed."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..shell import command_line
from . import options
from .approvals import call_to_decide, read_arguments, this_user
from .console import answer, say, to_json
from .running import execute
from .session import open_run


def approve(
    id: options.OpenRunId,
    call: options.CallId = None,
    changed: Annotated[
        str | None, typer.Option("--arguments", metavar="JSON", help="Arguments to use instead of the model's.")
    ] = None,
    digest: options.Digest = None,
    by: options.By = None,
    as_json: options.AsJson = False,
) -> None:
    """Let a waiting tool call be executed.

    With --digest, as every command that perdure shows has it, nothing else is approved that waits under the same id by
    now. Without it, what waits at this moment is approved, and shown.
    """
    arguments = None if changed is None else read_arguments(changed, "--arguments")
    execute(_approve(id, call, arguments, digest, by, as_json))


async def _approve(
    run_id: str,
    call_id: str | None,
    changed: dict[str, Any] | None,
    digest: str | None,
    by: str | None,
    as_json: bool,
) -> None:
    async with open_run(run_id) as (_, handle):
        run_id = handle.id
        call = await call_to_decide(handle, call_id, digest)
        await call.run.approve(call.id, arguments=changed, digest=call.digest, by=by or this_user())
        shown = call.shown if changed is None else f"{call.shown}, with {to_json(changed, indent=None)} instead,"
        say(f"Approved {shown} of run {call.run.id}. Watch it: {command_line('watch', run_id)}")
        if as_json:
            answer(
                {"id": call.run.id, "action": "approve", "callId": call.id, "digest": call.digest, "arguments": changed}
            )
