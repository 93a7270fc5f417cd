"""Which run of a session a command is about, when it is given the session's id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..shell import shell_word
from .console import say
from .problems import Failure

if TYPE_CHECKING:
    from temporalio.client import Client, WorkflowExecutionDescription


async def last_turn(client: Client, session: WorkflowExecutionDescription) -> str:
    """The id of the session's run under way, else of its last one; says which. Raises `Failure` before the first."""
    from ..client import session as conversation_of

    if under_way := run_under_way(session):
        say(f"Session {session.id}: the run under way is {under_way}", "faint")
        return under_way
    runs = await conversation_of(client, None, session.id).runs()
    if not runs:
        raise Failure(f"session {session.id} has no run yet: perdure chat --session {shell_word(session.id)}")
    say(f"Session {session.id}: no run is under way; the last one is {runs[-1].id}", "faint")
    return runs[-1].id


def run_under_way(session: WorkflowExecutionDescription) -> str | None:
    """The id of the session's run under way, if there is one."""
    pending = [child.workflow_id for child in session.raw_description.pending_children]
    return pending[0] if pending else None
