"""The tool calls of a run that wait for a person, as `perdure approve` and `perdure deny` name them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .console import shorten, to_json
from .problems import Failure

if TYPE_CHECKING:
    from ..client import RunHandle
    from ..protocol.run import PendingApproval

CallId = Annotated[str | None, typer.Argument(metavar="[CALL]", help="The tool call; default: the one that waits.")]


async def waiting_call(handle: RunHandle, call_id: str | None) -> PendingApproval:
    """The call that waits; raises Failure when it is not the named one, or not just one."""
    pending = (await handle.status()).pending_approvals
    found = [each for each in pending if call_id in (None, each.call_id)]
    if len(found) == 1:
        return found[0]
    waiting = "".join(f"\n  {each.call_id}  {describe(each)}" for each in pending) or " none"
    raise Failure(f"run {handle.id}: expected the id of one call that waits for a verdict. Waiting:{waiting}")


def describe(pending: PendingApproval) -> str:
    return f"{pending.name}({shorten(to_json(pending.arguments, indent=None))})"
