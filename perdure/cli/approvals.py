"""What `perdure approve`, `deny` and `answer`, and the questions on a terminal, have in common."""

from __future__ import annotations

import getpass
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from .console import describe_call
from .problems import Failure, UsageProblem

if TYPE_CHECKING:
    from ..client import RunHandle

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


async def call_to_decide(handle: RunHandle, call_id: str | None) -> DecidedCall:
    """The call of that id, None meaning the only one that waits for approval. Raises `Failure` when that is unclear.

    A given id that does not wait is for the run to judge: the same decision may have been taken before.
    """
    status = await handle.status()
    pending = status.pending_approvals
    found = [each for each in pending if call_id in (None, each.call_id)]
    if len(found) == 1:
        [each] = found
        run = handle.called(each.run_id) if each.run_id else handle
        return DecidedCall(each.call_id, each.digest, describe_call(each.name, each.arguments), run)
    if call_id is not None and not found:
        return DecidedCall(call_id, None, call_id, handle)
    waiting = "".join(
        f"\n  {each.call_id}  {describe_call(each.name, each.arguments)}  of run {each.run_id or handle.id}"
        for each in found
    )
    if status.status not in ("running", "waiting_for_approval"):
        raise Failure(
            f"run {handle.id} has ended, so nothing waits there: perdure show {handle.id} says what was decided"
        )
    raise Failure(
        f"run {handle.id}: expected the id of a tool call that waits for approval, in the run that it waits in. "
        f"Waiting:{waiting or ' none'}"
    )


def command_for(run_id: str, call_id: str, kind: str) -> str:
    """What to type to decide about a call that waits."""
    if kind == "question":
        return f"perdure answer {run_id} {call_id} TEXT"
    return f"perdure approve {run_id} {call_id}"


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
    except ValueError as error:
        raise UsageProblem(f"{where} {text!r}: not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise UsageProblem(f"{where} {text!r}: expected a JSON object of arguments by name, got {type(value).__name__}")
    return value


def this_user() -> str | None:
    """The name of the person who types; None where the system has none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return None
