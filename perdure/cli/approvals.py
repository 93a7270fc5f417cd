"""Finds the tool call that `perdure approve` or `perdure deny` is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .console import describe_call
from .problems import Failure

if TYPE_CHECKING:
    from ..client import RunHandle
    from ..protocol.run import PendingApproval


async def waiting_call(handle: RunHandle, call_id: str | None) -> PendingApproval:
    """The call of that id, None meaning the only one, that waits for approval. Raises `Failure` when there is none."""
    pending = (await handle.status()).pending_approvals
    found = [each for each in pending if call_id in (None, each.call_id)]
    if len(found) == 1:
        return found[0]
    waiting = "".join(f"\n  {each.call_id}  {describe_call(each.name, each.arguments)}" for each in pending) or " none"
    raise Failure(f"run {handle.id}: expected the id of a tool call that waits for approval. Waiting:{waiting}")
