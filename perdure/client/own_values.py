"""Removes the values that storage has for deleted runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Container, Mapping, Sequence

from temporalio.client import (
    Client,
    ScheduleActionStartWorkflow,
    ScheduleDescription,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
)
from temporalio.service import RPCError, RPCStatusCode

from ..errors import DeletionError
from ..history.references import HistoryReferences
from ..payloads.storage import values_of
from ..protocol.names import WORKFLOW
from ..protocol.search_attributes import TENANT
from .family import SCHEDULED, Family, description_of

Chain = Sequence[WorkflowExecutionDescription]


class OwnValues:
    """Removes the stored values of deleted runs, unless the history of another one may refer to
    them: then `perdure sweep` removes them later.
    """

    def __init__(
        self, client: Client, *, going: Container[str], requested: Mapping[str, str], force: bool
    ) -> None:
        """`going` are the ids to be deleted, and `requested` the links whose deletion was
        requested.
        """
        self._client = client
        self._values = values_of(client.data_converter.external_storage)
        self._going, self._requested, self._force = going, requested, force

    def require_reachable(self, id: str, found: HistoryReferences) -> None:
        """Raises `DeletionError` where values of the run are in a storage that this process can't
        reach.
        """
        if elsewhere := found.drivers - set(self._values.names() if self._values else ()):
            raise DeletionError(
                f"values of the run {id!r} are stored by {', '.join(sorted(elsewhere))}, which is "
                "not the storage of this process: set PERDURE_STORAGE to its value where the run "
                "was started",
                kind="storage",
            )

    async def remove(self, id: str, chain: Chain, found: HistoryReferences) -> tuple[int, bool]:
        """Remove the run's values; return their number, and whether it has values that stay."""
        if self._values is None:
            return 0, False
        try:
            listed = [each async for each in self._values.values(self._client.namespace, id)]
        except FileNotFoundError:
            if found.drivers:
                raise
            return 0, False  # The run never stored anything.
        if listed and await self._are_shared(id, chain, found):
            return 0, True
        return sum([await self._values.remove(each) for each in listed]), False

    async def _are_shared(self, id: str, chain: Chain, found: HistoryReferences) -> bool:
        """Return whether a remaining history may refer to the run's values: another run's of the
        id, the caller's, a foreign workflow's, the schedule's or its runs'.
        """
        going = {link.run_id for link in chain} | set(self._requested)
        family = await Family.read(self._client, id)
        if found.foreign or any(run_id not in going for _, run_id in family.executions):
            return True
        if any(each.id not in self._going for each in family.scheduled):
            return True
        if await self.staying_parent(chain) is not None:
            return True
        return SCHEDULED + id not in self._going and bool(await schedule_of(self._client, id))

    async def staying_parent(self, chain: Chain) -> WorkflowExecutionDescription | None:
        """Return the link that started the run, if it remains; None if there is none."""
        parent = (
            chain[0].raw_description.workflow_execution_info.parent_execution if chain else None
        )
        if parent is None or not parent.workflow_id or parent.run_id in self._requested:
            return None
        link = await description_of(self._client, parent.workflow_id, parent.run_id)
        is_refused = (
            link is not None and link.status == WorkflowExecutionStatus.RUNNING and not self._force
        )
        return link if is_refused or parent.workflow_id not in self._going else None


async def schedule_of(client: Client, name: str) -> ScheduleDescription | None:
    """Return the server's description of a schedule; None if there is none of that name."""
    try:
        return await client.get_schedule_handle(name).describe()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return None


async def schedules_of(client: Client, tenant: str) -> AsyncIterator[str]:
    """Yield the names of the schedules that start runs for the tenant. Raises `RPCError`."""
    async for entry in await client.list_schedules():
        found = await schedule_of(client, entry.id)
        action = found.schedule.action if found else None
        if not isinstance(action, ScheduleActionStartWorkflow) or action.workflow != WORKFLOW:
            continue
        if action.typed_search_attributes.get(TENANT) == tenant:
            yield entry.id
