"""The turns of a session, a line for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...money import format_usd
from ..approvals import local_time
from ..columns import in_columns
from ..console import describe_seconds

if TYPE_CHECKING:
    from temporalio.client import Client, WorkflowExecutionDescription

    from ...client import Session as Conversation


async def runs_table(client: Client, conversation: Conversation) -> list[str]:
    """The runs as aligned lines, oldest first. Raises `RPCError`, and `RunNotFound` when there is no such session."""
    from ...client.server_clock import server_time

    ids = [run.id for run in await conversation.runs()]
    now = await server_time(client)
    return in_columns([_cells(await client.get_workflow_handle(id).describe(), now) for id in ids])


def _cells(run: WorkflowExecutionDescription, now: float) -> list[str]:
    from ...protocol.search_attributes import COST
    from ..ls_query import word_of

    seconds = (run.close_time.timestamp() if run.close_time else now) - run.start_time.timestamp()
    cost = format_usd(run.typed_search_attributes.get(COST)) if run.close_time else ""
    return [run.id, word_of(run.status), local_time(run.start_time.timestamp()), describe_seconds(seconds), cost]
