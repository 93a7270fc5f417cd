"""What `perdure approve`, `deny` and `answer`, and the questions on a terminal, have in common."""

from __future__ import annotations

import getpass
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from ..excerpt import one_line
from ..shell import command_line
from .console import describe_call
from .problems import Failure, UsageProblem

if TYPE_CHECKING:
    from ..client import RunHandle
    from ..tool_calls import PendingApproval

DENIED = "denied by a person"
"""The reason of a denial without one."""


class DecidedCall(NamedTuple):
    """The call that a decision is about."""

    id: str
    digest: str | None
    """Of what waits now, so that the decision counts for nothing else; None when nothing of that id waits."""
    shown: str
    run: RunHandle
    """The run that takes the decision: this one, or one that it has called."""

    def told(self, action: str) -> dict[str, Any]:
        """What was done to which call, as JSON."""
        return {"id": self.run.id, "action": action, "callId": self.id, "digest": self.digest}


async def call_to_decide(handle: RunHandle, call_id: str | None, digest: str | None) -> DecidedCall:
    """The call of that id and digest, None meaning the only one that waits. Raises `Failure` when that is unclear.

    A given id that does not wait, or with another digest, is for the run to judge: the same decision may have been
    taken before.
    """
    status = await handle.status()
    named = [each for each in status.pending_approvals if call_id in (None, each.call_id)]
    found = [each for each in named if digest in (None, each.digest)]
    if len(found) == 1:
        [each] = found
        return DecidedCall(each.call_id, each.digest, describe_call(each.name, each.arguments), _run_of(handle, each))
    if call_id is not None and not found:
        run = _run_of(handle, named[0]) if named else handle
        now = [f", not {describe_call(each.name, each.arguments)}, which waits now," for each in named]
        return DecidedCall(call_id, digest, f"an earlier call {one_line(call_id)!r}{''.join(now)}", run)
    waiting = "".join(
        f"\n  {each.call_id} (digest {each.digest})  {describe_call(each.name, each.arguments)}  "
        f"of run {each.run_id or handle.id}"
        for each in found or named
    )
    if status.status not in ("running", "waiting_for_approval"):
        raise Failure(
            f"run {handle.id} has ended, so nothing waits there: "
            f"{command_line('show', handle.id)} says what was decided"
        )
    raise Failure(
        f"run {handle.id}: expected the id, and --digest where two have one id, of a tool call that waits. "
        f"Waiting:{waiting or ' none'}"
    )


def _run_of(handle: RunHandle, pending: PendingApproval) -> RunHandle:
    return handle.called(pending.run_id) if pending.run_id else handle


def times(pending: Mapping[str, Any]) -> str:
    """Since when something waits, and until when if there is a deadline."""
    until = f" until {local_time(pending['deadline'])}" if pending.get("deadline") else ""
    return f"since {local_time(pending['since'])}{until}"


def local_time(seconds: float) -> str:
    """A time as people read it: local, to the second."""
    return datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def read_arguments(text: str, where: str) -> dict[str, Any]:
    """Arguments that a person typed as JSON. Raises `UsageProblem`; `where` is what they were typed after."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageProblem(f"{where} {one_line(text)!r}: not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise UsageProblem(f"{where} {text!r}: expected a JSON object of arguments by name, got {type(value).__name__}")
    return value


def this_user() -> str | None:
    """The name of the person who types; None where the system has none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return None
