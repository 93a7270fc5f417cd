"""Examines open runs and the workers of their queues: what nobody can take, what keeps failing, who
has what.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from ...text import count_of, one_line
from ..check import Need
from ..ls import key_of
from ..worker_inside import AUTO_UPGRADE, current_version_command, version_options, worker_command
from .findings import Finding, examples
from .server import MAX_CLOCK_SECONDS, wrong_clock
from .workers import ANSWER_SECONDS, OPEN_RUNS, QueueState, QueueWorker, needed_variables

FAILING = f"{OPEN_RUNS} AND TemporalReportedProblems IS NOT NULL"
VERSION, BEHAVIOR = "TemporalWorkerDeploymentVersion", "TemporalWorkflowVersioningBehavior"


def of_workers(states: Sequence[QueueState]) -> Iterator[Finding]:
    """Yield what is wrong with workers, whatever the runs are."""
    for state in states:
        answered = [each for each in state.workers if each.account]
        for worker in answered:
            if abs(worker.clock_ahead) > MAX_CLOCK_SECONDS + ANSWER_SECONDS:
                yield wrong_clock(f"the clock of the worker {worker.identity}", worker.clock_ahead)
        yield from _different(
            state, answered, "storage", "set PERDURE_STORAGE to the same for all of them"
        )
        yield from _different(
            state, answered, "encryption_keys", "give all of them the same PERDURE_ENCRYPTION_KEY"
        )
        yield from _different(
            state, answered, "vouch_keys", "give all of them the gateways' PERDURE_VOUCH_KEY"
        )
        yield from _different(state, answered, "rates", "give all of them the same --rate")
        for worker in answered:
            for name, kind in (worker.account.open_breakers if worker.account else {}).items():
                yield Finding(
                    "open-breaker",
                    "warning",
                    f"the worker {worker.identity} holds calls of {name} back: they were refused "
                    f"({kind})",
                    "they go on once it takes one; else see perdure docs holding",
                    {
                        "queue": state.name,
                        "worker": worker.identity,
                        "connection": name,
                        "kind": kind,
                    },
                )
        versions = {each.version for each in state.workers if each.version}
        if versions and state.current is None and all(each.version for each in state.workers):
            newest = sorted(versions)[-1]
            yield Finding(
                "no-current-version",
                "error",
                f"no version is current for the task queue {state.name!r}, and all its workers "
                "have one: new runs wait",
                current_version_command(*newest),
                {"queue": state.name, "versions": sorted(map(str, versions))},
            )


def _different(
    state: QueueState, workers: Sequence[QueueWorker], what: str, do: str
) -> Iterator[Finding]:
    values = {str(getattr(each.account, what)): each.identity for each in workers}
    if len(values) > 1:
        each = "; ".join(
            sorted(f"{identity}: {value or 'none'}" for value, identity in values.items())
        )
        text = (
            f"workers of the task queue {state.name!r} differ in their {what.replace('_', ' ')}: "
            f"{each}"
        )
        yield Finding(
            f"different-{what.replace('_', '-')}", "warning", text, do, {"queue": state.name}
        )


def without_workers(states: Sequence[QueueState], within: float) -> Iterator[Finding]:
    """Yield the open runs that no worker takes up: none of their version has polled their queue for
    so many seconds.
    """
    for state in states:
        for version, runs in _by_version(state.runs).items():
            polled = [each for each in state.of_version(version) if each.seconds < within]
            if any(each.account for each in polled):
                continue
            ids = [run.id for run in runs]
            if polled:
                yield _silent(state, polled, ids)
                continue
            count, many = count_of(len(ids), "open run"), "s" if len(ids) == 1 else ""
            about = {"queue": state.name, "runs": ids, "version": str(version) if version else None}
            if version is None:
                text = (
                    f"{count} on the task queue {state.name!r} wait{many} for a worker, of which "
                    "there is none"
                )
                yield Finding(
                    "no-worker",
                    "error",
                    f"{text}: {examples(ids)}",
                    worker_command(state.name),
                    about,
                )
                continue
            text = (
                f"{count} on the task queue {state.name!r} need{many} a worker of the version "
                f"{version}"
            )
            start = f"{worker_command(state.name)} {version_options(str(version))}"
            query = f"{VERSION}='{version}' AND ExecutionStatus='Running'"
            move = (
                f'temporal workflow update-options --query "{query}" {AUTO_UPGRADE} --reason "no '
                'workers" --yes'
            )
            do = f"{start}; or, in the current version: {move}"
            yield Finding("version-without-worker", "error", f"{text}: {examples(ids)}", do, about)


def _silent(state: QueueState, workers: Sequence[QueueWorker], ids: Sequence[str]) -> Finding:
    """Return the finding of workers that have polled of late, and do not answer."""
    names = [each.identity for each in workers]
    polled = min(each.seconds for each in workers)
    text = (
        f"none of the workers of {count_of(len(ids), 'open run')} on the task queue {state.name!r} "
        "answers within "
        f"{ANSWER_SECONDS:g} s, although one has polled {polled:.0f} s before: they are dead or "
        f"frozen ({examples(names)}): {examples(ids)}"
    )
    do = f"look at their logs and start them again: {worker_command(state.name)}"
    return Finding(
        "silent-workers",
        "error",
        text,
        do,
        {"queue": state.name, "workers": names, "runs": list(ids)},
    )


def _by_version(
    runs: Iterable[WorkflowExecution],
) -> Mapping[Version | None, list[WorkflowExecution]]:
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
        known = {
            key for each in state.workers if each.account for key in each.account.encryption_keys
        }
        lacking: dict[str, list[str]] = defaultdict(list)
        for run in state.runs:
            if (
                (key := key_of(run)) is not None
                and key not in known
                and any(each.account for each in state.workers)
            ):
                lacking[key].append(run.id)
        for key, ids in lacking.items():
            text = (
                f"no worker of the task queue {state.name!r} has the key {key!r} of "
                f"{count_of(len(ids), 'open run')}"
            )
            do = f"add {key}:… to PERDURE_ENCRYPTION_KEY of the workers"
            yield Finding(
                "no-key", "error", f"{text}: {examples(ids)}", do, {"key": key, "runs": ids}
            )


def without_what_they_need(states: Sequence[QueueState]) -> Iterator[Finding]:
    """Yield the open runs that need something which none of the workers has that take them."""
    for state in states:
        yield from _without_tools(state)
        yield from _undecidable(state)


def _undecidable(state: QueueState) -> Iterator[Finding]:
    """Yield the open runs with a tool about whose calls nobody can decide, for want of a key."""
    accounts = [each.account for each in state.workers if each.account]
    ids = [need.run for need in state.needs if need.restricted]
    if ids and accounts and not any(each.vouch_keys for each in accounts):
        text = (
            f"nobody can decide about calls of {count_of(len(ids), 'open run')} on the task queue "
            f"{state.name!r}"
        )
        why = "approvers are restricted, and its workers have no key to verify them"
        do = "give the workers and the gateways the same PERDURE_VOUCH_KEY (perdure docs approvals)"
        yield Finding("no-vouch-key", "error", f"{text}, {why}: {examples(ids)}", do, {"runs": ids})


def _without_tools(state: QueueState) -> Iterator[Finding]:
    lacking: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    versions, recorded = (
        {run.id: pinned_in_list(run) for run in state.runs},
        list(state.recorded_tools),
    )
    for need in state.needs:
        accounts = [each.account for each in state.of_version(versions[need.run]) if each.account]
        for found in _lacking(need, accounts, recorded) if accounts else ():
            lacking[found].append(need.run)
    start = f"start a worker that has it: {worker_command(state.name)}"
    for (id, what, why), ids in lacking.items():
        text = (
            f"no worker of the task queue {state.name!r} has {what}, which "
            f"{count_of(len(ids), 'open run')} may call"
        )
        if id == "no-provider-key":
            text = (
                f"no worker of the task queue {state.name!r} has {what} for "
                f"{count_of(len(ids), 'open run')}"
            )
        do = _CURES.get(id, start)
        yield Finding(id, "error", f"{text}: {examples(ids)}{why}", do, {"what": what, "runs": ids})


_CURES = {
    "changed-signature": (
        "start a worker whose function takes those arguments; before a deployment: perdure check"
    ),
    "no-provider-key": "set it where the workers are started, and start them again; held runs then "
    "go on by: "
    "perdure go-on --status held",
}


def _lacking(
    need: Need, accounts: Sequence[WorkerAccount], recorded: Sequence[str]
) -> Iterator[tuple[str, str, str]]:
    for what, names, has in (
        ("tool", need.functions, "tools"),
        ("guardrails", need.guardrails, "guardrails"),
        ("compactor", need.compactors, "compactors"),
    ):
        for name in names:
            if not any(name in getattr(account, has) for account in accounts):
                yield "no-tool", f"the {what} {name!r}", ""
    for tool in need.recorded_tools:
        number = recorded.index(tool.model_dump_json())
        changes = [each.changes[number] for each in accounts if tool.tool.name in each.tools]
        if changes and all(changes):
            yield "changed-signature", f"the tool {tool.tool.name!r} as it was", f". {changes[0]}"
    for model in need.models:
        variables = needed_variables(model)
        if variables and not any(set(variables) & set(account.variables) for account in accounts):
            yield "no-provider-key", f"{variables[0]}, the key of the model {model.id},", ""


async def held_runs(client: Client, states: Sequence[QueueState]) -> list[Finding]:
    """Return the open runs that somebody has to let go on, with why the newest of them is held."""
    ids = [
        run.id
        for state in states
        for run in state.runs
        if run.typed_search_attributes.get(STATUS) == "held"
    ]
    if not ids:
        return []
    text = (
        f"{count_of(len(ids), 'open run')} {'is' if len(ids) == 1 else 'are'} held: {examples(ids)}"
    )
    with suppress(Exception):  # Whatever a reader raises: it must not hide what else is wrong.
        async with asyncio.timeout(ANSWER_SECONDS):
            held = (await get_run(client, ids[0]).status()).held
        if held:
            text += f". {ids[0]} ({held[0].reason}): {one_line(held[0].why, 200)}"
    do = (
        "perdure status ID shows the reason; once it is fixed: perdure go-on --status held "
        "(perdure docs holding)"
    )
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
            "start workers of the version that has begun them, or one that mends it; the log of a "
            "worker has the "
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
    answer = await client.workflow_service.get_workflow_execution_history_reverse(
        request, retry=True
    )
    for event in answer.history.events:
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
            return one_line(event.workflow_task_failed_event_attributes.failure.message, 200)
    return "its tasks time out"
