"""Examines open runs and the workers of their queues: what nobody can take, what keeps failing, who has what."""

from __future__ import annotations

import asyncio
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from temporalio.api.common.v1 import WorkflowExecution as Execution
from temporalio.api.enums.v1 import EventType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import ActivityFailureError, Client, WorkflowExecution
from temporalio.service import RPCError

from ...activities.pollers import WORKFLOWS, Version, pollers, version_of
from ...client import get_run
from ...protocol.inventory import WorkerAccount
from ...protocol.names import SESSION_WORKFLOW, WORKER_ACCOUNT, WORKFLOW, own_queue
from ...protocol.search_attributes import STATUS
from ...text import count_of, one_line
from ...worker.account import plain_client
from ..check import Need, needs_of
from ..ls import key_of
from ..worker_inside import AUTO_UPGRADE, current_version_command, version_options, worker_command
from .findings import Finding, examples
from .server import MAX_CLOCK_SECONDS, wrong_clock

ANSWER_SECONDS = 3.0
"""In which a worker tells what it has."""
OPEN_RUNS = f"WorkflowType IN ('{WORKFLOW}', '{SESSION_WORKFLOW}') AND ExecutionStatus = 'Running'"
FAILING = f"{OPEN_RUNS} AND TemporalReportedProblems IS NOT NULL"
VERSION, BEHAVIOR = "TemporalWorkerDeploymentVersion", "TemporalWorkflowVersioningBehavior"


@dataclass
class QueueWorker:
    """A worker that has polled a queue of late."""

    identity: str
    version: Version | None
    seconds: float
    """Since its last poll."""
    account: WorkerAccount | None = None
    """None for one that does not answer."""
    clock_ahead: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        account = self.account.model_dump(mode="json", exclude={"time"}) if self.account else None
        version = str(self.version) if self.version else None
        return {"identity": self.identity, "version": version, "polledBefore": round(self.seconds, 1), "has": account}


@dataclass
class QueueState:
    """A task queue, and the open runs on it."""

    name: str
    runs: list[WorkflowExecution] = field(default_factory=list)
    workers: list[QueueWorker] = field(default_factory=list)
    current: Version | None = None
    """The version that new runs go to."""

    def of_version(self, version: Version | None) -> list[QueueWorker]:
        """Return the workers that take the runs of a version; None is for runs of none."""
        wanted = version or self.current
        return [each for each in self.workers if each.version == wanted]


async def queue_states(client: Client, queues: Iterable[str], limit: int, now: float) -> list[QueueState]:
    """Return the queues of open runs, and those that are named, with their workers; `now` is the server's time.

    Raises `RPCError`.
    """
    states = {name: QueueState(name) for name in queues}
    async for run in client.list_workflows(OPEN_RUNS, limit=limit):
        states.setdefault(run.task_queue, QueueState(run.task_queue)).runs.append(run)
    asker = plain_client(client)
    await asyncio.gather(*(_find_workers(asker, state, now) for state in states.values()))
    return sorted(states.values(), key=lambda state: state.name)


async def _find_workers(client: Client, state: QueueState, now: float) -> None:
    queue = TaskQueue(name=state.name)
    request = DescribeTaskQueueRequest(namespace=client.namespace, task_queue=queue, task_queue_type=WORKFLOWS)
    described = await client.workflow_service.describe_task_queue(request, retry=True)
    current = described.versioning_info.current_deployment_version
    state.current = Version(current.deployment_name, current.build_id) if current.build_id else None
    state.workers = [
        QueueWorker(each.identity, version_of(each), now - each.last_access_time.ToMilliseconds() / 1000)
        for each in await pollers(client, state.name)
    ]
    await asyncio.gather(*(_ask(client, state.name, worker, now) for worker in state.workers))


async def _ask(client: Client, queue: str, worker: QueueWorker, now: float) -> None:
    limit = timedelta(seconds=ANSWER_SECONDS)
    began = asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout(2 * ANSWER_SECONDS):
            worker.account = await client.execute_activity(
                WORKER_ACCOUNT,
                id=f"perdure-doctor-{uuid.uuid4()}",
                task_queue=own_queue(queue, worker.identity),
                schedule_to_close_timeout=limit,
                result_type=WorkerAccount,
            )
    except (ActivityFailureError, RPCError, TimeoutError):
        return
    worker.clock_ahead = worker.account.time - (now + asyncio.get_running_loop().time() - began)


def of_workers(states: Sequence[QueueState]) -> Iterator[Finding]:
    """Yield what is wrong with workers, whatever the runs are."""
    for state in states:
        answered = [each for each in state.workers if each.account]
        for worker in answered:
            if abs(worker.clock_ahead) > MAX_CLOCK_SECONDS + ANSWER_SECONDS:
                yield wrong_clock(f"the clock of the worker {worker.identity}", worker.clock_ahead)
        yield from _different(state, answered, "storage", "set PERDURE_STORAGE to the same for all of them")
        yield from _different(state, answered, "encryption_keys", "give all of them the same PERDURE_ENCRYPTION_KEY")
        yield from _different(state, answered, "vouch_keys", "give all of them the gateways' PERDURE_VOUCH_KEY")
        yield from _different(state, answered, "rates", "give all of them the same --rate")
        versions = {each.version for each in state.workers if each.version}
        if versions and state.current is None and all(each.version for each in state.workers):
            newest = sorted(versions)[-1]
            yield Finding(
                "no-current-version",
                "error",
                f"no version is current for the task queue {state.name!r}, and all its workers have one: new runs wait",
                current_version_command(*newest),
                {"queue": state.name, "versions": sorted(map(str, versions))},
            )


def _different(state: QueueState, workers: Sequence[QueueWorker], what: str, do: str) -> Iterator[Finding]:
    values = {str(getattr(each.account, what)): each.identity for each in workers}
    if len(values) > 1:
        each = "; ".join(sorted(f"{identity}: {value or 'none'}" for value, identity in values.items()))
        text = f"workers of the task queue {state.name!r} differ in their {what.replace('_', ' ')}: {each}"
        yield Finding(f"different-{what.replace('_', '-')}", "warning", text, do, {"queue": state.name})


def without_workers(states: Sequence[QueueState], within: float) -> Iterator[Finding]:
    """Yield the open runs that no worker takes up: none of their version has polled their queue for so many seconds."""
    for state in states:
        for version, runs in _by_version(state.runs).items():
            if any(each.seconds < within for each in state.of_version(version)):
                continue
            ids = [run.id for run in runs]
            count, many = count_of(len(ids), "open run"), "s" if len(ids) == 1 else ""
            about = {"queue": state.name, "runs": ids, "version": str(version) if version else None}
            if version is None:
                text = f"{count} on the task queue {state.name!r} wait{many} for a worker, of which there is none"
                yield Finding("no-worker", "error", f"{text}: {examples(ids)}", worker_command(state.name), about)
                continue
            text = f"{count} on the task queue {state.name!r} need{many} a worker of the version {version}"
            start = f"{worker_command(state.name)} {version_options(str(version))}"
            query = f"{VERSION}='{version}' AND ExecutionStatus='Running'"
            move = f'temporal workflow update-options --query "{query}" {AUTO_UPGRADE} --reason "no workers" --yes'
            do = f"{start}; or, in the current version: {move}"
            yield Finding("version-without-worker", "error", f"{text}: {examples(ids)}", do, about)


def _by_version(runs: Iterable[WorkflowExecution]) -> Mapping[Version | None, list[WorkflowExecution]]:
    found: dict[Version | None, list[WorkflowExecution]] = defaultdict(list)
    for run in runs:
        found[pinned_in_list(run)].append(run)
    return found


def pinned_in_list(run: WorkflowExecution) -> Version | None:
    """Return the version that a run in a list is pinned to; None for none."""
    attributes = {pair.key.name: pair.value for pair in run.typed_search_attributes}
    named = str(attributes.get(VERSION) or "")
    if attributes.get(BEHAVIOR) != "Pinned" or ":" not in named:
        return None
    deployment, _, build_id = named.partition(":")
    return Version(deployment, build_id)


def without_keys(states: Sequence[QueueState]) -> Iterator[Finding]:
    """Yield the open runs whose key none of the workers has that could take them."""
    for state in states:
        known = {key for each in state.workers if each.account for key in each.account.encryption_keys}
        lacking: dict[str, list[str]] = defaultdict(list)
        for run in state.runs:
            if (key := key_of(run)) is not None and key not in known and any(each.account for each in state.workers):
                lacking[key].append(run.id)
        for key, ids in lacking.items():
            text = f"no worker of the task queue {state.name!r} has the key {key!r} of {count_of(len(ids), 'open run')}"
            do = f"add {key}:… to PERDURE_ENCRYPTION_KEY of the workers"
            yield Finding("no-key", "error", f"{text}: {examples(ids)}", do, {"key": key, "runs": ids})


async def without_tools(client: Client, states: Sequence[QueueState]) -> list[Finding]:
    """Return the open runs with a tool that none of the workers has that take them."""
    found: list[Finding] = []
    for state in states:
        runs = [run for run in state.runs if run.workflow_type == WORKFLOW]
        needs = [need for need in await needs_of(client, runs) if isinstance(need, Need)]
        found += _without_tools(state, needs, {run.id: pinned_in_list(run) for run in runs})
        found += _undecidable(state, needs)
    return found


def _undecidable(state: QueueState, needs: Iterable[Need]) -> Iterator[Finding]:
    """Yield the open runs with a tool about whose calls nobody can decide, for want of a key."""
    accounts = [each.account for each in state.workers if each.account]
    ids = [need.run for need in needs if need.restricted]
    if ids and accounts and not any(each.vouch_keys for each in accounts):
        text = f"nobody can decide about calls of {count_of(len(ids), 'open run')} on the task queue {state.name!r}"
        why = "not everybody may, and its workers have no key that tells them who decides"
        do = "give the workers and the gateways the same PERDURE_VOUCH_KEY (perdure docs approvals)"
        yield Finding("no-vouch-key", "error", f"{text}, {why}: {examples(ids)}", do, {"runs": ids})


def _without_tools(
    state: QueueState, needs: Iterable[Need], versions: Mapping[str, Version | None]
) -> Iterator[Finding]:
    lacking: dict[str, list[str]] = defaultdict(list)
    for need in needs:
        accounts = [each.account for each in state.of_version(versions[need.run]) if each.account]
        for name in _lacking(need, accounts) if accounts else ():
            lacking[name].append(need.run)
    for name, ids in lacking.items():
        may_call = f"which {count_of(len(ids), 'open run')} may call"
        text = f"no worker of the task queue {state.name!r} has {name}, {may_call}"
        do = f"start a worker that has it: {worker_command(state.name)}"
        yield Finding("no-tool", "error", f"{text}: {examples(ids)}", do, {"what": name, "runs": ids})


def _lacking(need: Need, accounts: Sequence[WorkerAccount]) -> Iterator[str]:
    for what, names, has in (
        ("tool", need.functions, "tools"),
        ("guardrails", need.guardrails, "guardrails"),
        ("compactor", need.compactors, "compactors"),
    ):
        for name in names:
            if not any(name in getattr(account, has) for account in accounts):
                yield f"the {what} {name!r}"


async def held_runs(client: Client, states: Sequence[QueueState]) -> list[Finding]:
    """Return the open runs that somebody has to let go on, with why the newest of them is held."""
    ids = [run.id for state in states for run in state.runs if run.typed_search_attributes.get(STATUS) == "held"]
    if not ids:
        return []
    text = f"{count_of(len(ids), 'open run')} {'is' if len(ids) == 1 else 'are'} held: {examples(ids)}"
    with suppress(Exception):  # Whatever a reader raises: it must not hide what else is wrong.
        if held := (await get_run(client, ids[0]).status()).held:
            text += f". {ids[0]} ({held[0].reason}): {one_line(held[0].why, 200)}"
    do = "perdure status ID says why; when that is mended: perdure go-on --status held (perdure docs holding)"
    return [Finding("held", "warning", text, do, {"runs": ids})]


async def failing_tasks(client: Client, limit: int) -> list[Finding]:
    """Return the open runs whose workflow task keeps failing, with what it last failed of."""
    try:
        runs = [run async for run in client.list_workflows(FAILING, limit=limit)]
    except RPCError:
        return []  # a server that does not know the attribute
    causes: dict[str, list[str]] = defaultdict(list)
    for run in runs:
        causes[await _last_failure(client, run)].append(run.id)
    return [
        Finding(
            "failing-tasks",
            "error",
            f"{count_of(len(ids), 'run')} can't go on, each attempt fails: {why}: {examples(ids)}",
            "start workers of the version that has begun them, or one that mends it; the log of a worker has the "
            f"traceback, and the history is: temporal workflow show --workflow-id {ids[0]}",
            {"runs": ids, "why": why},
        )
        for why, ids in causes.items()
    ]


async def _last_failure(client: Client, run: WorkflowExecution) -> str:
    request = GetWorkflowExecutionHistoryReverseRequest(
        namespace=client.namespace,
        execution=Execution(workflow_id=run.id, run_id=run.run_id),
        maximum_page_size=10,
    )
    answer = await client.workflow_service.get_workflow_execution_history_reverse(request, retry=True)
    for event in answer.history.events:
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
            return one_line(event.workflow_task_failed_event_attributes.failure.message, 200)
    return "its tasks time out"
