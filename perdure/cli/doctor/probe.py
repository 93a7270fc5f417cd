"""Measures a server's settings by what it does: how soon it dispatches, whether timers and tenants
wait too long.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from statistics import median

from temporalio import activity, workflow
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.query.v1 import WorkflowQuery
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    CountWorkflowExecutionsRequest,
    DescribeTaskQueueRequest,
    GetSystemInfoRequest,
    QueryWorkflowRequest,
)
from temporalio.client import ActivityHandle, Client, WorkflowFailureError
from temporalio.common import Priority
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from ...activities.pollers import ACTIVITIES
from ...client.server_settings import ServerSetting, setting
from ...worker.account import plain_client
from ...worker.ending import bound_end
from .findings import Finding

ROUNDS = 16
"""Steps, of which the second half is timed: a server that gives out few tasks a second has some
ready after a rest."""
SLOW_DISPATCH_SECONDS, SLOW_TIMER_SECONDS = 0.03, 0.5
"""Beyond what the network takes: a server that is not told otherwise needs 0.03 to 0.05, and 1, on
average."""
MANY, NEWCOMERS, LATE = 32, "bcdefghi", 7
"""Tasks of a first tenant, the tenants that come after it with one task each, and how many of the
first tenant's may be served before all of theirs. A queue has four parts that are served side by
side, each of them fairly, or in the order of arrival: one newcomer's place says little. Measured:
after 0 to 1, and after 9 to 23."""
BACKLOG_LOOKS = 30
BURST = 15
"""Counts of runs at once: more than a server takes a second that is not told otherwise."""
READERS, READ_SECONDS = 4, 0.5
"""Queries at once, and how long they wait: what the server refuses, it refuses at once."""
PATIENCE_SECONDS, END_SECONDS = 20.0, 2.0
"""For all of it, and for the end of each worker."""


@activity.defn(name="perdure.doctor.step")
async def step() -> None:
    """Nothing."""


@workflow.defn(name="perdure.Doctor", sandboxed=False)
class Probe:
    """Takes the time of a few steps and of a timer."""

    @workflow.run
    async def run(self) -> list[float]:
        """Return seconds of a step, the median of the later half, and of a timer of a
        millisecond.
        """
        times = [workflow.time()]
        for _ in range(ROUNDS):
            await workflow.execute_activity(step, start_to_close_timeout=timedelta(seconds=5))
            times.append(workflow.time())
        await workflow.sleep(0.001)
        steps = [after - before for before, after in pairwise(times)]
        return [median(steps[ROUNDS // 2 :]), workflow.time() - times[-1]]


@dataclass
class _Order:
    """In which order the runs of two tenants are served."""

    served: list[str] = field(default_factory=list)

    @activity.defn(name="perdure.doctor.turn")
    async def turn(self, tenant: str) -> None:
        """Note who is served."""
        self.served.append(tenant)


async def probed_settings(client: Client) -> list[Finding]:
    """Return what the server's settings are unfit for, as its behaviour shows. Leaves two closed
    runs behind.
    """
    findings: list[Finding] = []
    client = plain_client(client)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            findings += await _paces(client)
            for found in await asyncio.gather(
                _visibility(client), _fairness(client), _readers(client)
            ):
                findings += found
    except (TimeoutError, RPCError, WorkflowFailureError) as error:
        findings.append(_of_failure(error))
    return findings


def _of_failure(error: Exception) -> Finding:
    if isinstance(error, RPCError) and error.status is RPCStatusCode.UNAVAILABLE:
        text = f"the server answers, but can't record anything: {error}"
        do = "look at its log and its database: is its disk full? (perdure docs operating)"
        return Finding("no-writes", "error", text, do)
    why = str(error) or f"no answer within {PATIENCE_SECONDS:g} s"
    return Finding(
        "settings-unknown", "warning", f"not all of the server's settings can be measured: {why}"
    )


async def _paces(client: Client) -> Sequence[Finding]:
    queue = f"perdure-doctor-{uuid.uuid4()}"
    worker = Worker(
        client,
        task_queue=queue,
        workflows=[Probe],
        activities=[step],
        workflow_runner=UnsandboxedWorkflowRunner(),
        disable_eager_activity_execution=True,
        max_concurrent_activity_task_polls=2,
    )
    async with bound_end(worker, END_SECONDS):
        trip = await _round_trip(client)
        a_step, timer = await client.execute_workflow(
            Probe.run,
            id=queue,
            task_queue=queue,
            execution_timeout=timedelta(seconds=PATIENCE_SECONDS),
        )
    return list(
        _slow(a_step / 2 - trip, timer - trip)
    )  # A step is two tasks: the activity, and the decision after it.


def _slow(per_task: float, timer: float) -> Iterator[Finding]:
    if per_task > SLOW_DISPATCH_SECONDS:
        text = f"the server takes {1000 * per_task:.0f} ms to give out a task"
        yield unfit(
            "slow-dispatch", setting("history.transferProcessorMaxPollRPS"), text, seconds=per_task
        )
    if timer > SLOW_TIMER_SECONDS:
        text = f"a timer of 1 ms takes {timer:.1f} s"
        yield unfit(
            "slow-timers", setting("history.timerProcessorMaxTimeShift"), text, seconds=timer
        )


async def _round_trip(client: Client) -> float:
    begun = time.monotonic()
    for _ in range(3):
        await client.workflow_service.get_system_info(GetSystemInfoRequest(), retry=False)
    return (time.monotonic() - begun) / 3


async def _fairness(client: Client) -> Sequence[Finding]:
    queue, order = f"perdure-doctor-{uuid.uuid4()}", _Order()
    with suppress(RPCError):  # A server without standalone activities shows nothing here.
        first = [_start_turn(client, queue, "a", number) for number in range(MANY)]
        handles = await asyncio.gather(*first)
        handles += await asyncio.gather(
            *(_start_turn(client, queue, tenant, MANY) for tenant in NEWCOMERS)
        )
        await _backlog(client, queue, MANY + len(NEWCOMERS))
        worker = Worker(
            client,
            task_queue=queue,
            activities=[order.turn],
            max_concurrent_activities=1,
            max_concurrent_activity_task_polls=1,
        )
        async with bound_end(worker, END_SECONDS):
            await asyncio.gather(*(handle.result() for handle in handles))
        before = min(map(order.served.index, NEWCOMERS))
        if before >= LATE:
            text = (
                f"a tenant's first task was served after {before} of another one, which had come "
                "before it"
            )
            return [unfit("unfair", setting("matching.enableFairness"), text, served_before=before)]
    return ()


async def _start_turn(client: Client, queue: str, tenant: str, number: int) -> ActivityHandle[None]:
    return await client.start_activity(
        "perdure.doctor.turn",
        tenant,
        id=f"{queue}-{tenant}-{number}",
        task_queue=queue,
        schedule_to_close_timeout=timedelta(seconds=PATIENCE_SECONDS),
        start_to_close_timeout=timedelta(seconds=5),
        priority=Priority(fairness_key=tenant),
    )


async def _backlog(client: Client, queue: str, tasks: int) -> None:
    """Wait until so many tasks are on the queue, for a few seconds at most."""
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=queue),
        task_queue_type=ACTIVITIES,
        report_stats=True,
    )
    for _ in range(BACKLOG_LOOKS):
        described = await client.workflow_service.describe_task_queue(request, retry=True)
        if described.stats.approximate_backlog_count >= tasks:
            return
        await asyncio.sleep(0.1)


async def _readers(client: Client) -> Sequence[Finding]:
    """Ask a run that no worker takes up several things at once: the server refuses what it can't
    keep at once.
    """
    id = f"perdure-doctor-{uuid.uuid4()}"
    limit = timedelta(seconds=PATIENCE_SECONDS)
    run = await client.start_workflow(
        "perdure.Doctor", id=id, task_queue=id, execution_timeout=limit
    )
    query = WorkflowQuery(query_type="__stack_trace")
    request = QueryWorkflowRequest(
        namespace=client.namespace, execution=WorkflowExecution(workflow_id=id), query=query
    )
    wait = timedelta(seconds=READ_SECONDS)
    asked = (
        client.workflow_service.query_workflow(request, retry=False, timeout=wait)
        for _ in range(READERS)
    )
    refused = len(_refusals(await asyncio.gather(*asked, return_exceptions=True)))
    await run.terminate("perdure doctor has measured")
    if not refused:
        return ()
    text = f"the server refused {refused} of {READERS} readers of a run at once"
    return [unfit("query-buffer", setting("history.MaxBufferedQueryCount"), text, refused=refused)]


def _refusals(answers: Sequence[object]) -> list[RPCError]:
    failed = [each for each in answers if isinstance(each, RPCError)]
    return [each for each in failed if each.status is RPCStatusCode.RESOURCE_EXHAUSTED]


async def _visibility(client: Client) -> Sequence[Finding]:
    request = CountWorkflowExecutionsRequest(
        namespace=client.namespace, query="ExecutionStatus = 'Running'"
    )
    asked = (
        client.workflow_service.count_workflow_executions(request, retry=False)
        for _ in range(BURST)
    )
    refused = _refusals(await asyncio.gather(*asked, return_exceptions=True))
    if not refused:
        return ()
    text = f"the server refused {len(refused)} of {BURST} counts of runs at once"
    return [
        unfit(
            "visibility-quota",
            setting("frontend.namespaceRPS.visibility"),
            text,
            refused=len(refused),
        )
    ]


def unfit(id: str, setting: ServerSetting, text: str, **about: float) -> Finding:
    """Return the finding of a setting that a server lacks."""
    value = str(setting.value).lower() if isinstance(setting.value, bool) else setting.value
    return Finding(
        id,
        "warning",
        f"{text}: {setting.without}",
        f"set {setting.key}: {value} in the server's dynamic configuration (perdure docs "
        "operating)",
        {"setting": setting.key, "value": setting.value, **about},
    )
