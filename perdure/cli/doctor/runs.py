"""Examines the queues of open runs: missing and different workers, held runs, failing tasks."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from temporalio.api.common.v1 import WorkflowExecution as Execution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import Client, WorkflowExecution
from temporalio.service import RPCError

from ...activities.pollers import Version
from ...client import get_run
from ...protocol.inventory import WorkerAccount
from ...protocol.search_attributes import STATUS
from ...text import one_line
from ..check import OPEN_RUNS, Need
from ..ls import key_of
from ..worker_inside import AUTO_UPGRADE, current_version_command, version_options, worker_command
from .findings import Finding, finding
from .server import MAX_CLOCK_SECONDS, wrong_clock
from .workers import ANSWER_SECONDS, QueueState, needed_variables

FAILING = f"{OPEN_RUNS} AND TemporalReportedProblems IS NOT NULL"
VERSION, BEHAVIOR = "TemporalWorkerDeploymentVersion", "TemporalWorkflowVersioningBehavior"
_SAME = ("storage", "encryption_keys", "vouch_keys", "rates")
"""Fields of a `WorkerAccount` that are the same for all workers of a queue."""


def of_queue(state: QueueState, within: float) -> Iterator[Finding]:
    """Yield the faults of a queue's workers, and of its runs that lack workers; a worker counts if
    it has polled within so many seconds.
    """
    yield from _of_workers(state)
    yield from _without_workers(state, within)
    yield from _without_keys(state)
    yield from _without_tools(state)
    ids = [need.run for need in state.needs if need.restricted]
    if ids and state.accounts and not any(each.vouch_keys for each in state.accounts):
        yield finding("no-vouch-key", queue=state.name, runs=ids)


def _of_workers(state: QueueState) -> Iterator[Finding]:
    values: dict[str, dict[str, str]] = {name: {} for name in _SAME}
    for worker in state.workers:
        if (account := worker.account) is None:
            continue
        whose, most = f"the clock of the worker {worker.identity}", MAX_CLOCK_SECONDS
        yield from wrong_clock(whose, worker.clock_ahead, most + ANSWER_SECONDS)
        for name, kind in account.open_breakers.items():
            yield finding(
                "open-breaker",
                queue=state.name,
                worker=worker.identity,
                connection=name,
                kind=kind,
            )
        for name, known in values.items():
            known[str(getattr(account, name))] = worker.identity
    for name, known in values.items():
        if len(known) > 1:
            each = sorted(f"{identity}: {value or 'none'}" for value, identity in known.items())
            id = f"different-{name.replace('_', '-')}"
            yield finding(id, queue=state.name, each="; ".join(each))
    versions = sorted({each.version for each in state.workers if each.version})
    if versions and state.current is None and all(each.version for each in state.workers):
        command = current_version_command(*versions[-1])
        yield finding("no-current-version", queue=state.name, command=command)


def _without_workers(state: QueueState, within: float) -> Iterator[Finding]:
    """Yield the open runs that no worker takes up: none of their version has polled their queue, or
    none of those answers.
    """
    by_version: dict[Version | None, list[str]] = defaultdict(list)
    for run in state.runs:
        by_version[pinned_in_list(run)].append(run.id)
    for version, ids in by_version.items():
        start = _start(state.name, version)
        polled = [each for each in state.of_version(version) if each.seconds < within]
        if any(each.account for each in polled):
            continue
        if polled:
            yield finding(
                "silent-workers",
                queue=state.name,
                runs=ids,
                workers=[each.identity for each in polled],
                polled=min(each.seconds for each in polled),
                within=ANSWER_SECONDS,
                start=start,
            )
        elif version is None:
            yield finding("no-worker", queue=state.name, runs=ids, version=None, start=start)
        else:
            yield finding(
                "version-without-worker",
                queue=state.name,
                runs=ids,
                version=str(version),
                start=start,
                options=version_options(str(version)),
                upgrade=AUTO_UPGRADE,
            )


def _start(queue: str, version: Version | None) -> str:
    """Return the command that starts a worker of the version."""
    return f"{worker_command(queue)} {version_options(str(version)) if version else ''}".strip()


def pinned_in_list(run: WorkflowExecution) -> Version | None:
    """Return the version that a run in a list is pinned to; None for none."""
    attributes = {pair.key.name: pair.value for pair in run.typed_search_attributes}
    named = str(attributes.get(VERSION) or "")
    if attributes.get(BEHAVIOR) != "Pinned" or ":" not in named:
        return None
    deployment, _, build_id = named.partition(":")
    return Version(deployment, build_id)


def _without_keys(state: QueueState) -> Iterator[Finding]:
    known = {key for account in state.accounts for key in account.encryption_keys}
    lacking: dict[str, list[str]] = defaultdict(list)
    for run in state.runs if state.accounts else ():
        if (key := key_of(run)) is not None and key not in known:
            lacking[key].append(run.id)
    for key, ids in lacking.items():
        yield finding("no-key", queue=state.name, key=key, runs=ids)


def _without_tools(state: QueueState) -> Iterator[Finding]:
    lacking: dict[tuple[Version | None, str, str, str], list[str]] = defaultdict(list)
    versions = {run.id: pinned_in_list(run) for run in state.runs}
    numbers = {tool: number for number, tool in enumerate(state.recorded_tools)}
    for need in state.needs:
        version = versions[need.run]
        workers = state.of_version(version)
        if accounts := [each.account for each in workers if each.account]:
            for found in _lacking(need, accounts, numbers):
                lacking[version, *found].append(need.run)
    for (version, id, what, change), ids in lacking.items():
        yield finding(
            id,
            queue=state.name,
            what=what,
            runs=ids,
            change=change,
            pinned=f" of the version {version}" if version else "",
            start=_start(state.name, version),
            move="; or move the runs to another version: perdure docs deploys" if version else "",
        )


def _lacking(
    need: Need, accounts: Sequence[WorkerAccount], numbers: Mapping[str, int]
) -> Iterator[tuple[str, str, str]]:
    """Yield the finding's id, the missing thing, and the change of a signature."""
    for what, names, has in (
        ("tool", need.functions, "tools"),
        ("guardrails", filter(None, [need.options.guardrails]), "guardrails"),
        ("compactor", filter(None, [need.options.compactor]), "compactors"),
    ):
        for name in names:
            if not any(name in getattr(account, has) for account in accounts):
                yield "no-tool", f"the {what} {name!r}", ""
    for tool in need.recorded_tools:
        number, name = numbers[tool.model_dump_json()], tool.tool.name
        changes = [each.changes[number] for each in accounts if name in each.tools]
        if changes and all(changes):
            yield "changed-signature", f"the tool {name!r} as it was", str(changes[0])
    for model in need.models:
        variables = needed_variables(model)
        if variables and not any(set(variables) & set(account.variables) for account in accounts):
            yield "no-provider-key", f"{variables[0]}, the key of the model {model.id},", ""


async def held_runs(client: Client, states: Sequence[QueueState]) -> list[Finding]:
    """Return the held runs, with the reason of the newest one."""
    runs = [run for state in states for run in state.runs]
    ids = [run.id for run in runs if run.typed_search_attributes.get(STATUS) == "held"]
    if not ids:
        return []
    why = ""
    with suppress(Exception):  # Any error of a reader: it must not hide what else is wrong.
        async with asyncio.timeout(ANSWER_SECONDS):
            held = (await get_run(client, ids[0]).status()).held
        why = f". {ids[0]} ({held[0].reason}): {one_line(held[0].why, 200)}" if held else ""
    return [finding("held", runs=ids, why=why)]


async def failing_tasks(client: Client, limit: int) -> list[Finding]:
    """Return the open runs whose workflow task keeps failing, with the last failure."""
    try:
        runs = [run async for run in client.list_workflows(FAILING, limit=limit)]
    except RPCError:
        return []  # a server that does not know the attribute
    causes: dict[str, list[str]] = defaultdict(list)
    for run in runs:
        causes[await _last_failure(client, run)].append(run.id)
    return [
        finding("failing-tasks", runs=ids, why=why, first=ids[0]) for why, ids in causes.items()
    ]


async def _last_failure(client: Client, run: WorkflowExecution) -> str:
    request = GetWorkflowExecutionHistoryReverseRequest(
        namespace=client.namespace,
        execution=Execution(workflow_id=run.id, run_id=run.run_id),
        maximum_page_size=10,
    )
    service = client.workflow_service
    try:
        answer = await service.get_workflow_execution_history_reverse(request, retry=True)
    except RPCError as error:
        return f"its history can't be read: {error.message}"  # it may be deleted meanwhile
    for event in answer.history.events:
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
            return one_line(event.workflow_task_failed_event_attributes.failure.message, 200)
    return "its tasks time out"
