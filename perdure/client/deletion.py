"""Deletes runs and sessions, everything of a tenant, and unreferenced values (`perdure docs
deletion`).
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Literal, NamedTuple, TypeVar

from pydantic import BaseModel
from temporalio.api.common.v1 import WorkflowExecution as ExecutionKey
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import (
    Client,
    ScheduleActionStartWorkflow,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
)
from temporalio.service import RPCError, RPCStatusCode

from ..commands import command_line, shell_word
from ..errors import ConfigurationError, DeletionError
from ..history.link import not_a_run
from ..history.references import OWN, digests_in, events_of_link, own_child
from ..payloads.converter import with_converter
from ..payloads.storage import StoredValue, StoredValues, values_of
from ..protocol.names import SESSION_WORKFLOW, WORKFLOW
from ..protocol.search_attributes import SESSION, TENANT, quote
from .family import SCHEDULED, Family, description_of, first_run_id, schedule_of

T = TypeVar("T")
Chain = Sequence[WorkflowExecutionDescription]
KINDS = (SESSION_WORKFLOW, WORKFLOW)
"""The workflow types that are deleted on their own; a session takes its turns with it."""
AT_ONCE = 20
"""The number of runs that are deleted, or histories that are read, concurrently."""
WAIT_SECONDS = 120.0
"""A server deletes the history of a run that ended just now about a minute later."""
ENDING_SECONDS = 10.0
SCHEDULER = "temporal-sys-scheduler:"
"""The prefix of the ids of the server's own schedule workflows."""


class Left(BaseModel):
    """A remaining run or session with texts of the deleted run."""

    what: Literal["caller", "session", "fork"]
    id: str


class Deletion(BaseModel):
    """The outcome of a deletion: the deleted runs, and the remaining ones with their texts."""

    id: str
    runs: list[str] = []
    """The deleted runs and sessions: the one of the id, and those that it started."""
    histories: int = 0
    """The number of histories that the server deletes; for a run that ended just now, a minute
    later."""
    left: list[Left] = []

    def add(self, other: Deletion) -> None:
        """Add the outcome of a further deletion."""
        self.runs += other.runs
        self.histories += other.histories
        self.left += [
            each for each in other.left if each not in self.left and each.id not in self.runs
        ]


class DeletionTarget(NamedTuple):
    """A run or session to delete."""

    id: str
    run_id: str | None = None
    """The link of the intended run; None for all runs that have had the id."""


async def delete_run(client: Client, id: str, *, force: bool = False) -> Deletion:
    """Delete the run or session of that id, and the runs that it called.

    `sweep_storage` removes their values from the storage later. If a deletion fails halfway, the
    next call completes it; where nothing is left, `runs` is empty. `force` ends open runs first.

    Raises `DeletionError`, also for an open run, and the errors of the server.
    """
    return await Deletions(client, force=force, going=[id]).delete(DeletionTarget(id))


async def delete_session(client: Client, id: str) -> set[str]:
    """Delete a run or a session with everything that it started, open or not; return the run ids of
    all their links.

    Raises as `delete_run` does.
    """
    deletions = Deletions(client, force=True, going=[id])
    await deletions.delete(DeletionTarget(id))
    return set(deletions.requested)


class TenantDeletion(BaseModel):
    """The outcome of deleting a tenant."""

    deleted: list[Deletion] = []
    failed: dict[str, str] = {}
    """Run or session → the reason why it, or a part of it, remains."""


async def delete_tenant(client: Client, tenant: str, *, force: bool = False) -> TenantDeletion:
    """Delete everything of a tenant: its schedules, and each run and session as `delete_run` does.

    One failure does not stop the rest. Raises `RPCError` if they can't be listed.
    """
    report, deletions = TenantDeletion(), Deletions(client, force=force)
    async for name in schedules_of(client, tenant):
        report.deleted.append(await deletions.delete_schedule(name))
    of_tenant = f"{TENANT.name} = {quote(tenant)} AND ExecutionStatus != 'ContinuedAsNew'"
    targets = await find_targets(
        client, [f"WorkflowType = '{type}' AND {of_tenant}" for type in KINDS]
    )
    deletions.going |= {target.id for target in targets}

    async def delete(target: DeletionTarget) -> None:
        try:
            report.deleted.append(await deletions.delete(target))
        except Exception as error:  # The report has each error.
            report.failed[target.id] = str(error) or type(error).__name__

    await _for_each(targets, delete)
    return report


async def _for_each(items: Iterable[T], do: Callable[[T], Awaitable[None]]) -> None:
    """Do this for each item, for `AT_ONCE` of them at a time."""
    left = iter(items)

    async def work() -> None:
        for item in left:
            await do(item)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))


async def schedules_of(client: Client, tenant: str) -> AsyncIterator[str]:
    """Yield the names of the schedules that start runs for the tenant. Raises `RPCError`."""
    async for entry in await client.list_schedules():
        found = await schedule_of(client, entry.id)
        action = found.schedule.action if found else None
        if not isinstance(action, ScheduleActionStartWorkflow) or action.workflow != WORKFLOW:
            continue
        if action.typed_search_attributes.get(TENANT) == tenant:
            yield entry.id


async def find_targets(client: Client, queries: Iterable[str]) -> list[DeletionTarget]:
    """Return the runs and sessions that match any of the list queries. Raises `RPCError`."""
    return [
        DeletionTarget(run.id, run.run_id)
        for query in queries
        async for run in client.list_workflows(query)
    ]


class Deletions:
    """Deletes many runs, each once, even where one has called another.

    The runs that a run started go first, then its histories, oldest first: if this is interrupted,
    the next attempt finds the rest.
    """

    def __init__(self, client: Client, *, force: bool = False, going: Iterable[str] = ()) -> None:
        """`going` are the ids of everything to be deleted: the outcome does not name them as
        remaining.
        """
        self._client = client
        self._force = force
        self.going = set(going)
        self._gone: set[tuple[str, str]] = set()
        self.requested: dict[str, str] = {}
        """The links whose deletion was requested: workflow id by run id."""
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def delete(self, target: DeletionTarget) -> Deletion:
        """Delete a run or a session. Raises as `delete_run` does."""
        async with self._turns[target.id]:
            self.going.add(target.id)
            return await self._delete(target)

    async def _delete(self, target: DeletionTarget) -> Deletion:
        deletion, family = Deletion(id=target.id), await Family.read(self._client, target.id)
        own = [chain for chain in family.chains if chain[0].workflow_type in OWN]
        if family.chains and not own and target.run_id is None:
            raise DeletionError(
                not_a_run(target.id, family.chains[-1][0].workflow_type), kind="other"
            )
        for chain in own:
            is_meant = target.run_id is None or target.run_id in {
                first_run_id(chain[0]),
                *(each.run_id for each in chain),
            }
            if is_meant and (target.id, first_run_id(chain[0])) not in self._gone:
                await self._delete_chain(family, chain, deletion)
                self._gone.add((target.id, first_run_id(chain[0])))
        if not family.chains:
            for child in family.begun:
                deletion.add(await self.delete(DeletionTarget(child.id, child.run_id)))
        return deletion

    async def _delete_chain(self, family: Family, chain: Chain, into: Deletion) -> None:
        if chain[-1].status == WorkflowExecutionStatus.RUNNING:
            family, chain = await self._end(family.id, chain)
            if not chain:
                return
        links = {each.run_id for each in chain}
        begun = {child.id: child.run_id for child in family.begun if child.parent_run_id in links}
        for link in chain:
            async for event in events_of_link(self._client, link.id, link.run_id):
                if (child := own_child(event)) is not None:
                    begun[child.workflow_id] = child.run_id
        for id, run_id in begun.items():
            into.add(await self.delete(DeletionTarget(id, run_id)))
        for link in chain:
            await self._remove_history(link.id, link.run_id)
        into.histories += len(chain)
        into.runs.append(family.id)
        into.left += await self._left(family, chain)

    async def _end(self, id: str, chain: Chain) -> tuple[Family, Chain]:
        """End the open runs, which may continue in new links meanwhile; return the family and chain
        as they are afterwards.
        """
        if not self._force:
            force = "or delete it while it is open (--force, force=True)"
            if chain[-1].workflow_type == SESSION_WORKFLOW:
                close = command_line("chat", more=f"--session {shell_word(id)} --close")
                raise DeletionError(
                    f"the session {id!r} is open: close it first ({close}), {force}", kind="open"
                )
            raise DeletionError(
                f"the run {id!r} is open: end it first (perdure cancel), {force}", kind="open"
            )
        origin, deadline = first_run_id(chain[0]), time.monotonic() + ENDING_SECONDS
        while time.monotonic() < deadline:
            try:
                await self._client.get_workflow_handle(id, first_execution_run_id=origin).terminate(
                    reason="it is deleted (perdure delete)"
                )
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise
            family = await Family.read(self._client, id)
            ended = next((each for each in family.chains if first_run_id(each[0]) == origin), ())
            if not ended or ended[-1].status != WorkflowExecutionStatus.RUNNING:
                return family, ended
        raise DeletionError(
            f"the run {id!r} has not ended {ENDING_SECONDS:g} s after it was terminated",
            kind="slow",
        )

    async def _left(self, family: Family, chain: Chain) -> list[Left]:
        left = [Left(what="fork", id=fork.id) for fork in family.forks if fork.id not in self.going]
        parent = (
            chain[0].raw_description.workflow_execution_info.parent_execution if chain else None
        )
        if parent is None or parent.run_id in self.requested or parent.workflow_id in self.going:
            return left
        if parent.workflow_id and await description_of(
            self._client, parent.workflow_id, parent.run_id
        ):
            is_turn = chain[0].typed_search_attributes.get(SESSION) == parent.workflow_id
            left.append(Left(what="session" if is_turn else "caller", id=parent.workflow_id))
        return left

    async def _remove_history(self, id: str, run_id: str) -> None:
        """Request the deletion of one link; the server does the rest by itself."""
        key = ExecutionKey(workflow_id=id, run_id=run_id)
        request = DeleteWorkflowExecutionRequest(
            namespace=self._client.namespace, workflow_execution=key
        )
        try:
            await self._client.workflow_service.delete_workflow_execution(request, retry=True)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
        self.requested[run_id] = id

    async def pending(self, seconds: float = 0.0) -> int:
        """Wait at most this long and return how many histories the server has yet to delete."""
        deadline, pause, left = time.monotonic() + seconds, 0.05, dict(self.requested)
        while True:
            for run_id, id in list(left.items()):
                if await description_of(self._client, id, run_id) is not None:
                    break
                del left[run_id]
            if not left or time.monotonic() > deadline:
                return len(left)
            await asyncio.sleep(pause)
            pause = min(2 * pause, 2.0)

    async def delete_schedule(self, name: str) -> Deletion:
        """Delete a schedule with its history; the runs that it started stay. Raises `RPCError`."""
        deletion = Deletion(id=SCHEDULED + name, runs=[SCHEDULED + name])
        await self._client.get_schedule_handle(name).delete()
        query = (
            f"WorkflowId = {quote(SCHEDULER + name)} AND TemporalNamespaceDivision = "
            "'TemporalScheduler'"
        )
        for history in await find_targets(self._client, [query]):
            await self._remove_history(history.id, history.run_id or "")
            deletion.histories += 1
        return deletion


DAY_SECONDS = 86_400.0
HOUR_SECONDS = 3_600.0
"""A value that was stored less long ago may be on its way into a history."""


class Sweep(BaseModel):
    """The outcome of a sweep."""

    values: int
    """The number of values in the storage."""
    removed: list[str] = []
    """The places of the unreferenced values."""
    histories: int = 0
    """The number of histories read."""


async def sweep_storage(
    client: Client, *, older_than: float = DAY_SECONDS, shared: bool = False, dry_run: bool = False
) -> Sweep:
    """Remove the values of the client's namespace to which no run, session or schedule refers;
    workers may run.

    Values stored within the last `older_than` seconds stay. `shared` includes values without a run:
    only for a storage that no other namespace or server uses. `dry_run` removes nothing.

    Raises ValueError for less than an hour, `ConfigurationError` for a client without a storage of
    perdure's, and the errors of the server and the storage.
    """
    if older_than < HOUR_SECONDS:
        raise ValueError(f"older_than={older_than:g}: expected {HOUR_SECONDS:g} seconds at least")
    client = with_converter(client)
    values = values_of(client.data_converter.external_storage)
    if values is None:
        raise ConfigurationError(
            "there is no storage to sweep: set PERDURE_STORAGE as the workers have it"
        )
    # List the values before the histories: a value stored in between is too young to be removed.
    try:
        listed = [value async for value in values.values(client.namespace)]
    except FileNotFoundError as error:
        raise ConfigurationError(
            f"the storage {error.filename!r} is not there: expected the folder of the workers. "
            "Mount it here, or set PERDURE_STORAGE to where it is"
        ) from error
    before = time.time() - older_than
    candidates = [each for each in listed if each.modified < before and (each.owner or shared)]
    executions = (
        [(run.id, run.run_id) async for run in client.list_workflows("")] if candidates else []
    )
    schedules = [entry.id async for entry in await client.list_schedules()] if candidates else []
    known = {values.owner(id) for id in (*schedules, *(id for id, _ in executions))}
    candidates = [each for each in candidates if each.owner not in known]
    sweep = Sweep(values=len(listed), histories=len(executions) if candidates else 0)
    referred = await _digests(client, executions, schedules) if candidates else set[str]()
    unused = [each for each in candidates if each.digest not in referred]
    sweep.removed = (
        [each.key for each in unused]
        if dry_run
        else [key async for key in _remove_each(values, unused)]
    )
    return sweep


async def _remove_each(values: StoredValues, unused: Iterable[StoredValue]) -> AsyncIterator[str]:
    for each in unused:
        if await values.remove(each):
            yield each.key


async def _digests(
    client: Client, executions: Iterable[tuple[str, str]], schedules: Iterable[str]
) -> set[str]:
    """Return the digests of all values that histories and schedules refer to."""
    found = set[str]()

    async def read(link: tuple[str, str]) -> None:
        async for event in events_of_link(client, *link):
            found.update(digests_in(event.SerializeToString()))

    await _for_each(executions, read)
    for name in schedules:
        if (described := await schedule_of(client, name)) is not None:
            found |= digests_in(described.raw_description.SerializeToString())
    return found
