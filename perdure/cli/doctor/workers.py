"""The queues of open runs: their workers, the needs of their runs, and the answer of each
worker.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import ActivityFailureError, Client, WorkflowExecution
from temporalio.service import RPCError

from ...activities.pollers import POLL_SECONDS, WORKFLOWS, Version, pollers, version_of
from ...agents import Model
from ...json_types import JsonObject
from ...prompty.portable import env_name
from ...protocol.inventory import RecordedTool, WorkerAccount, WorkerQuestion
from ...protocol.names import WORKER_ACCOUNT, WORKFLOW, own_queue
from ...providers.sdks import key_variables
from ...worker.account import plain_client
from ..check import OPEN_RUNS, Need, needs_of
from ..ls import key_of

ANSWER_SECONDS = 3.0
"""How long each worker has to answer."""


def needed_variables(model: Model) -> tuple[str, ...]:
    """Return the environment variables of which the model needs one; () if it needs none."""
    written = (model.connection and model.connection.api_key) or ""
    named = env_name(written)
    return (named,) if named else key_variables(model)


@dataclass
class QueueWorker:
    """A worker that has polled a queue recently."""

    identity: str
    version: Version | None
    seconds: float
    """Since its last poll."""
    account: WorkerAccount | None = None
    """None for one that does not answer."""
    clock_ahead: float = 0.0

    def as_json(self, within: float) -> JsonObject:
        """Return it for programs. It is gone if it has not polled within so many seconds."""
        account = self.account.model_dump(mode="json", exclude={"time"}) if self.account else None
        version = str(self.version) if self.version else None
        return {
            "identity": self.identity,
            "version": version,
            "polledBefore": round(self.seconds, 1),
            "isGone": account is None and self.seconds > within,
            "has": account,
        }


@dataclass
class QueueState:
    """A task queue, and the open runs on it."""

    name: str
    runs: list[WorkflowExecution] = field(default_factory=list)
    needs: list[Need] = field(default_factory=list)
    """Those of the runs that can be read."""
    workers: list[QueueWorker] = field(default_factory=list)
    current: Version | None = None
    """The version that new runs go to."""

    @property
    def accounts(self) -> list[WorkerAccount]:
        """The accounts of the workers that have answered."""
        return [each.account for each in self.workers if each.account]

    def of_version(self, version: Version | None) -> list[QueueWorker]:
        """Return the workers that take the runs of a version; None is for runs of none."""
        wanted = version or self.current
        return [each for each in self.workers if each.version == wanted]

    @property
    def recorded_tools(self) -> dict[str, RecordedTool]:
        """The different tools whose functions the runs have recorded, by their JSON."""
        tools = [tool for need in self.needs for tool in need.recorded_tools]
        return {tool.model_dump_json(): tool for tool in tools}

    @property
    def question(self) -> WorkerQuestion:
        """The question whether a worker can take the runs."""
        models = [model for need in self.needs for model in need.models]
        variables = sorted({name for model in models for name in needed_variables(model)})
        return WorkerQuestion(variables=variables, calls=list(self.recorded_tools.values()))


async def queue_states(client: Client, queues: Iterable[str], limit: int) -> list[QueueState]:
    """Return the queues of open runs, and the named ones, with the needs of the runs. Raises
    `RPCError`.
    """
    states = {name: QueueState(name) for name in queues}
    async for run in client.list_workflows(OPEN_RUNS, limit=limit):
        states.setdefault(run.task_queue, QueueState(run.task_queue)).runs.append(run)
    for state in states.values():
        runs = [run for run in state.runs if run.workflow_type == WORKFLOW]
        encrypted = {run.id for run in runs if key_of(run) is not None}
        for need in await needs_of(client, runs):
            if isinstance(need, Need):  # What is asked travels in the clear.
                state.needs.append(need._replace(signatures={}) if need.run in encrypted else need)
    return sorted(states.values(), key=lambda state: state.name)


async def missing_keys(client: Client, run: WorkflowExecution) -> list[str]:
    """Return the variables with keys of the run's models that none of its workers has; [] where
    none answers.

    Raises `RPCError`.
    """
    state = QueueState(run.task_queue, [run])
    state.needs = [need for need in await needs_of(client, state.runs) if isinstance(need, Need)]
    await ask_workers(client, [state], time.time())
    had = {name for account in state.accounts for name in account.variables}
    models = [model for need in state.needs if state.accounts for model in need.models]
    needed = filter(None, map(needed_variables, models))
    return [variables[0] for variables in needed if not had & set(variables)]


async def ask_workers(client: Client, states: Iterable[QueueState], now: float) -> None:
    """Ask all workers of the queues at once, for `ANSWER_SECONDS`; `now` is the server's time.
    Raises `RPCError`.
    """
    asker = plain_client(client)
    await asyncio.gather(*(_find_workers(asker, state, now) for state in states))
    asked = [
        (state, worker)
        for state in states
        for worker in state.workers
        if worker.seconds < POLL_SECONDS
    ]
    await asyncio.gather(*(_ask(asker, state, worker, now) for state, worker in asked))


async def _find_workers(client: Client, state: QueueState, now: float) -> None:
    queue = TaskQueue(name=state.name)
    request = DescribeTaskQueueRequest(
        namespace=client.namespace, task_queue=queue, task_queue_type=WORKFLOWS
    )
    described = await client.workflow_service.describe_task_queue(request, retry=True)
    current = described.versioning_info.current_deployment_version
    state.current = Version(current.deployment_name, current.build_id) if current.build_id else None
    state.workers = [
        QueueWorker(
            each.identity, version_of(each), now - each.last_access_time.ToMilliseconds() / 1000
        )
        for each in await pollers(client, state.name)
    ]


async def _ask(client: Client, state: QueueState, worker: QueueWorker, now: float) -> None:
    began = asyncio.get_running_loop().time()
    with suppress(ActivityFailureError, RPCError, TimeoutError):
        async with asyncio.timeout(ANSWER_SECONDS):
            worker.account = await client.execute_activity(
                WORKER_ACCOUNT,
                state.question,
                id=f"perdure-doctor-{uuid.uuid4()}",
                task_queue=own_queue(state.name, worker.identity),
                schedule_to_close_timeout=timedelta(seconds=ANSWER_SECONDS),
                result_type=WorkerAccount,
            )
        worker.clock_ahead = worker.account.time - (now + asyncio.get_running_loop().time() - began)
