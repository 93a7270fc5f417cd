"""Lists the runs that wait for a person, with what they wait for: `perdure ls --waiting`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from ..decision_commands import decision_command
from .approvals import times
from .console import answer, describe_call, say
from .session import Session

if TYPE_CHECKING:
    from temporalio.client import Client


async def list_waiting(session: Session, query: str, limit: int, *, as_json: bool) -> None:
    """Print the calls that wait, by run, those of the newest run first; `query` says which open runs are asked.

    Raises `RPCError`, also for a query that the server does not take.
    """
    rows = [row async for row in _rows(session.client, query, limit)]
    if as_json:
        answer(rows)
        return
    if not rows:
        say(f"No run on {session.place} waits for a person.")
    for row in rows:
        for pending in row["pending"]:
            answer(_line(row["id"], pending))


async def _rows(client: Client, query: str, limit: int) -> AsyncIterator[dict[str, Any]]:
    from ..client import get_run

    count = 0
    async for id in _candidates(client, query):
        # What waits in a called run is listed with that run.
        pending = [each for each in (await get_run(client, id).status()).pending_approvals if each.run_id is None]
        if pending:
            yield {"id": id, "pending": [each.model_dump(mode="json", by_alias=True) for each in pending]}
            count += 1
        if count == limit:
            return


async def _candidates(client: Client, query: str) -> AsyncIterator[str]:
    """The runs whose status says that they wait; where the namespace does not know the status, all open runs."""
    from temporalio.service import RPCError, RPCStatusCode

    from ..protocol.search_attributes import STATUS

    try:
        async for run in client.list_workflows(f"{query} AND {STATUS.name} = 'waiting'"):
            yield run.id
    except RPCError as error:
        if error.status is not RPCStatusCode.INVALID_ARGUMENT or STATUS.name not in error.message:
            raise
        async for run in client.list_workflows(query):
            yield run.id


def _line(run_id: str, pending: dict[str, Any]) -> str:
    call = describe_call(pending["name"], pending["arguments"])
    how = decision_command(run_id, pending["call_id"], pending["digest"], kind=pending["kind"])
    return f"{run_id}  {call}  {times(pending)}: {how}"
