"""`perdure approve`: let a waiting tool call be executed."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from . import options
from .approvals import waiting_call
from .console import describe_call, say
from .problems import UsageProblem
from .running import execute
from .session import open_run


def approve(
    id: options.RunId,
    call: options.CallId = None,
    changed: Annotated[
        str | None, typer.Option("--arguments", metavar="JSON", help="Arguments to use instead of the model's.")
    ] = None,
) -> None:
    """Let a waiting tool call be executed."""
    execute(_approve(id, call, _read_arguments(changed)))


async def _approve(run_id: str, call_id: str | None, changed: dict[str, Any] | None) -> None:
    async with open_run(run_id) as (_, handle):
        pending = await waiting_call(handle, call_id)
        await handle.approve(pending.call_id, arguments=changed)
        call = describe_call(pending.name, pending.arguments)
        say(f"Approved {call} of run {run_id}. Watch it: perdure result {run_id} --follow")


def _read_arguments(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageProblem(f"--arguments {text!r}: not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise UsageProblem(
            f"--arguments {text!r}: expected a JSON object of arguments by name, got {type(value).__name__}"
        )
    return value
