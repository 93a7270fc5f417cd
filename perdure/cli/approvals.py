"""`perdure approve` and `perdure deny`: a person's verdict on a tool call."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options as arguments
from .console import say, shorten, to_json
from .existing import open_run
from .problems import Failure, UsageProblem
from .running import execute

if TYPE_CHECKING:
    from ..client import RunHandle
    from ..protocol.run import PendingApproval

CallId = Annotated[str | None, typer.Argument(metavar="[CALL]", help="The tool call; default: the one that waits.")]


def approve(
    id: arguments.RunId,
    call: CallId = None,
    changed: Annotated[
        str | None, typer.Option("--arguments", metavar="JSON", help="Arguments to use instead of the model's.")
    ] = None,
) -> None:
    """Let a waiting tool call be executed."""
    execute(_approve(id, call, _read_arguments(changed)))


def deny(
    id: arguments.RunId,
    call: CallId = None,
    reason: Annotated[str, typer.Option(help="Why; the model reads it.")] = "denied by a person",
) -> None:
    """Refuse a waiting tool call.

    The model is told why, and goes on.
    """
    execute(_deny(id, call, reason))


async def _approve(run_id: str, call_id: str | None, changed: dict[str, Any] | None) -> None:
    async with open_run(run_id) as (_, handle):
        pending = await _waiting(handle, call_id)
        await handle.approve(pending.call_id, arguments=changed)
        say(f"Approved {_describe(pending)} of run {run_id}. Watch it: perdure result {run_id} --follow")


async def _deny(run_id: str, call_id: str | None, reason: str) -> None:
    async with open_run(run_id) as (_, handle):
        pending = await _waiting(handle, call_id)
        await handle.deny(pending.call_id, reason)
        say(f"Denied {_describe(pending)} of run {run_id}. Watch it: perdure result {run_id} --follow")


async def _waiting(handle: RunHandle, call_id: str | None) -> PendingApproval:
    """The call that waits; raises Failure when it is not the named one, or not just one."""
    pending = (await handle.status()).pending_approvals
    found = [each for each in pending if call_id in (None, each.call_id)]
    if len(found) == 1:
        return found[0]
    waiting = "".join(f"\n  {each.call_id}  {_describe(each)}" for each in pending) or " none"
    raise Failure(f"run {handle.id}: expected the id of one call that waits for a verdict. Waiting:{waiting}")


def _describe(pending: PendingApproval) -> str:
    return f"{pending.name}({shorten(to_json(pending.arguments, indent=None))})"


def _read_arguments(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageProblem(f"--arguments {text!r}: no JSON: {error}") from error
    if not isinstance(value, dict):
        raise UsageProblem(f"--arguments {text!r}: expected an object, name: value, got {type(value).__name__}")
    return value
