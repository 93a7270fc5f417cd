"""Creates a worker's workflow instances, and leaves some of their tasks to other workers."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import replace
from itertools import groupby

from temporalio.bridge.proto.workflow_activation import WorkflowActivation, WorkflowActivationJob
from temporalio.bridge.proto.workflow_completion import Success, WorkflowActivationCompletion
from temporalio.worker import StartLocalActivityInput, UnsandboxedWorkflowRunner
from temporalio.worker._workflow_instance import (
    WorkflowInstance,
    WorkflowInstanceDetails,
    _WorkflowInstanceImpl,
)

from ..payloads.converter import DeferringConverter
from ..redaction import get_logger
from .agent_run import AgentRun
from .session.session import Session

_log = get_logger("perdure.runs")
DONE_FIRST = ("notify_has_patch", "update_random_seed")
QUERY_OF_ITS_OWN = "legacy_query"
"""The id that the SDK's Core gives to a query that has a task of its own."""
NOT_TAKEN_UP = (
    "the run has events that no workflow task has taken up yet: query it after the next task, or "
    "replay its history"
)
WORKER_FAILED = (
    "a local activity was not executed, because its worker has failed: another worker goes on with "
    "the run"
)


class _OwnInstance(_WorkflowInstanceImpl):
    """The SDK's workflow instance, protected against running on two threads and against a failed
    worker's answers.

    When a workflow task exceeds the time of the SDK's deadlock detector, as on an overloaded
    machine, the SDK evicts the workflow on another thread, even while the first one still runs it.
    A workflow that two threads have run can no longer be evicted, and its worker would never stop.
    """

    def __init__(self, det: WorkflowInstanceDetails) -> None:
        super().__init__(det)
        self._turn = threading.Lock()
        self._asked = WorkflowActivation()
        """The queries that wait for the end of the local activities."""
        self._last = WorkflowActivation()
        """The last activation, without its jobs, whose payloads may be large."""

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        """Process the activation after other threads have finished; fail a task that a failed
        worker answers.
        """
        if not act.is_replaying and any(map(_is_left_by_worker, act.jobs)):
            run = self._info.workflow_id
            _log.warning("Run %s: %s", run, WORKER_FAILED, extra={"run": run})
            return _failed(act, WORKER_FAILED)
        with self._turn:
            last, self._last = self._last, _without_jobs(act)
            if comes_before_its_task(act, last):
                return _failed(act, NOT_TAKEN_UP)
            if self._waits_with(act):
                self._asked.CopyFrom(act)
                return WorkflowActivationCompletion(run_id=act.run_id, successful=Success())
            return self._activate_in_order(act)

    def _waits_with(self, act: WorkflowActivation) -> bool:
        """Return whether the activation has queries that wait.

        Core reports the workflow task together with the answer, and the end of a local activity
        that comes meanwhile: before the workflow has it. A message that comes then would be later
        than that end, which may be the run's last step.
        """
        has_queries_only = all(
            job.HasField("query_workflow") and job.query_workflow.query_id != QUERY_OF_ITS_OWN
            for job in act.jobs
        )
        return has_queries_only and self._has_local_activities

    @property
    def _has_local_activities(self) -> bool:
        return any(
            isinstance(each._input, StartLocalActivityInput)
            for each in self._pending_activities.values()
        )

    def _activate_in_order(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        """Process the jobs one kind after the other, each as if in a separate activation; then the
        queries of this task that have waited.
        """
        whole = WorkflowActivationCompletion(run_id=act.run_id)
        for jobs in parts_of(act.jobs):
            part = WorkflowActivation()
            part.CopyFrom(act)
            del part.jobs[:]
            part.jobs.extend(jobs)
            done = super().activate(part)
            if done.HasField("failed"):
                return done
            whole.MergeFrom(done)
        if self._asked.jobs and not self._has_local_activities:
            queries, self._asked = self._asked, WorkflowActivation()
            if queries.history_length == act.history_length and not _is_eviction(act):
                whole.MergeFrom(super().activate(queries))
        return whole


def comes_before_its_task(act: WorkflowActivation, last: WorkflowActivation) -> bool:
    """Return whether the activation, which follows `last`, has events that no workflow task has
    taken up.

    For a query that has a task of its own, Core brings these too, and begins the local activities
    that follow. What comes until the workflow task, such as a signal, would then be later than
    these events, and precede them on a replay. Time and size are still those of the last workflow
    task; the size grows with each task.
    """
    return (
        act.history_length > last.history_length
        and act.history_size_bytes == last.history_size_bytes != 0
        and act.timestamp == last.timestamp
        and not act.is_replaying
        and not _is_eviction(act)
    )


def parts_of(jobs: Collection[WorkflowActivationJob]) -> list[list[WorkflowActivationJob]]:
    """Return the jobs of an activation in processing order, as at least one part.

    Jobs that the SDK processes before all others, such as the notices of patches, come before the
    first part.
    """
    first = [job for job in jobs if job.WhichOneof("variant") in DONE_FIRST]
    others = [job for job in jobs if job.WhichOneof("variant") not in DONE_FIRST]
    parts = [list(each) for _, each in groupby(sorted(others, key=_place), key=_place)] or [[]]
    return [[*first, *parts[0]], *parts[1:]]


def _place(job: WorkflowActivationJob) -> int:
    """Return a job's place in the order of its activation, which is the same on any replay.

    The SDK processes signals and updates first. If an update and an activity's result arrive
    together, a replay gets both in one activation, while the first execution may get the update in
    a later one. So results come first. A signal still precedes the results of the same activation,
    which may end the workflow. So do a signal and an update precede the results of local
    activities, which have ended between two tasks. A workflow begins with the signals of its start.
    """
    match job.WhichOneof("variant"):
        case "resolve_activity" if job.resolve_activity.is_local:
            return 3
        case "do_update":
            return 2
        case "query_workflow":
            return 4
    return 1


def _failed(act: WorkflowActivation, why: str) -> WorkflowActivationCompletion:
    completion = WorkflowActivationCompletion(run_id=act.run_id)
    completion.failed.failure.message = why
    return completion


def _without_jobs(act: WorkflowActivation) -> WorkflowActivation:
    return WorkflowActivation(
        history_length=act.history_length,
        history_size_bytes=act.history_size_bytes,
        timestamp=act.timestamp,
    )


def _is_eviction(act: WorkflowActivation) -> bool:
    return any(job.HasField("remove_from_cache") for job in act.jobs)


def _is_left_by_worker(job: WorkflowActivationJob) -> bool:
    """Return whether the SDK answered for a local activity because the worker's activity part has
    failed.

    The SDK's answer is a failure without a type, which no activity returns; nothing was executed.
    The run has not failed, and failing the task keeps the answer out of the history. Histories of
    older workers contain it as the end of their runs: these replay unchanged.
    """
    if not job.HasField("resolve_activity") or not job.resolve_activity.is_local:
        return False
    result = job.resolve_activity.result
    return result.HasField("failed") and result.failed.failure.WhichOneof("failure_info") is None


class OwnWorkflowRunner(UnsandboxedWorkflowRunner):
    """The SDK's runner without a sandbox, with a `DeferringConverter` for perdure's own
    workflows.
    """

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """Return the workflow's instance."""
        if issubclass(det.defn.cls, (AgentRun, Session)):
            converter = DeferringConverter(det.payload_converter_factory())
            det = replace(det, payload_converter_factory=lambda: converter)
        return _OwnInstance(det)  # type: ignore[abstract]
