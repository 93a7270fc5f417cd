"""Finds the runs that have had an id, and the runs that belong to them, through the server's
lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from temporalio.client import (
    Client,
    ScheduleDescription,
    WorkflowExecution,
    WorkflowExecutionDescription,
)
from temporalio.service import RPCError, RPCStatusCode

from ..history.link import read_start
from ..history.references import OWN
from ..protocol.names import FORK_OF
from ..protocol.search_attributes import ORIGIN, keyword, quote

SCHEDULED = "schedule:"
"""The prefix of a scheduled run's origin; the schedule's name follows."""


@dataclass
class Family:
    """The runs of one id, and the runs that belong to them."""

    id: str
    chains: list[list[WorkflowExecutionDescription]] = field(default_factory=list)
    """The runs that have had the id, oldest first, each as its retained links."""
    begun: list[WorkflowExecution] = field(default_factory=list)
    """Links of the runs that they called, or of turns."""
    forks: list[WorkflowExecution] = field(default_factory=list)

    @classmethod
    async def read(cls, client: Client, id: str) -> Family:
        """Query the server. Raises `RPCError`."""
        family, found = cls(id), dict[str, WorkflowExecutionDescription]()
        await _follow_back(client, id, None, found)
        for each in await _list_links(client, id):
            if each.id == id:
                await _follow_back(client, id, each.run_id, found)
            elif each.workflow_type in OWN:
                family._place(each)
        chains: dict[str, list[WorkflowExecutionDescription]] = {}
        for link in sorted(found.values(), key=lambda link: link.start_time):
            chains.setdefault(first_run_id(link), []).append(link)
        family.chains = list(chains.values())
        return family

    def _place(self, other: WorkflowExecution) -> None:
        if other.parent_id == self.id:
            self.begun.append(other)
        elif FORK_OF in other.raw_info.memo.fields:
            self.forks.append(other)


def first_run_id(link: WorkflowExecutionDescription) -> str:
    """Return the run id of the first link of its run, which may be deleted already."""
    return link.raw_description.workflow_execution_info.first_run_id


async def description_of(
    client: Client, id: str, run_id: str | None
) -> WorkflowExecutionDescription | None:
    """Return the server's description of a link, or of the id's latest one; None if there is
    none.
    """
    try:
        return await client.get_workflow_handle(id, run_id=run_id).describe()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return None


async def schedule_of(client: Client, name: str) -> ScheduleDescription | None:
    """Return the server's description of a schedule; None without one: the server lists a deleted
    one for a moment longer.
    """
    try:
        return await client.get_schedule_handle(name).describe()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return None


async def _follow_back(
    client: Client, id: str, run_id: str | None, found: dict[str, WorkflowExecutionDescription]
) -> None:
    """Add a link and its predecessors to those that were found."""
    while run_id is None or run_id not in found:
        link = await description_of(client, id, run_id)
        if link is None or link.run_id in found:
            return
        found[link.run_id] = link
        if first_run_id(link) == link.run_id:
            return
        try:
            run_id = (await read_start(client, id, link.run_id)).continued_execution_run_id
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return
        if not run_id:
            return


async def _list_links(client: Client, id: str) -> Sequence[WorkflowExecution]:
    """Return the links that have the id, or have it as their origin, from the server's lists."""
    same = f"WorkflowId = {quote(id)}"
    origin = f"{ORIGIN.name} = {quote(keyword(id))}"
    try:
        return [each async for each in client.list_workflows(f"{same} OR {origin}")]
    except RPCError as error:
        if error.status is not RPCStatusCode.INVALID_ARGUMENT:
            raise
        # The namespace does not know the attribute.
        return [
            each
            async for each in client.list_workflows(f"{same} OR ParentWorkflowId = {quote(id)}")
        ]
