"""Creates a worker's workflow instances, and leaves some of their tasks to other workers."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from itertools import groupby

from temporalio.bridge.proto.workflow_activation import WorkflowActivation, WorkflowActivationJob
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.worker import UnsandboxedWorkflowRunner
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

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        """Process the activation after other threads have finished; fail a task that a failed
        worker answers.
        """
        if not act.is_replaying and any(map(_is_left_by_worker, act.jobs)):
            run = self._info.workflow_id
            _log.warning("Run %s: %s", run, WORKER_FAILED, extra={"run": run})
            completion = WorkflowActivationCompletion(run_id=act.run_id)
            completion.failed.failure.message = WORKER_FAILED
            return completion
        with self._turn:
            return self._activate_in_order(act)

    def _activate_in_order(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        """Process the jobs one kind after the other, each as if in a separate activation."""
        whole = WorkflowActivationCompletion(run_id=act.run_id)
        for jobs in parts_of(act.jobs, is_replaying=act.is_replaying):
            part = WorkflowActivation()
            part.CopyFrom(act)
            del part.jobs[:]
            part.jobs.extend(jobs)
            done = super().activate(part)
            if done.HasField("failed"):
                return done
            whole.MergeFrom(done)
        return whole


def parts_of(
    jobs: Collection[WorkflowActivationJob], *, is_replaying: bool = False
) -> list[list[WorkflowActivationJob]]:
    """Return the jobs of an activation in processing order, as at least one part.

    Jobs that the SDK processes before all others, such as the notices of patches, come before the
    first part.
    """
    first = [job for job in jobs if job.WhichOneof("variant") in DONE_FIRST]
    others = [job for job in jobs if job.WhichOneof("variant") not in DONE_FIRST]
    place = partial(_place, is_replaying=is_replaying)
    parts = [list(each) for _, each in groupby(sorted(others, key=place), key=place)] or [[]]
    return [[*first, *parts[0]], *parts[1:]]


def _place(job: WorkflowActivationJob, *, is_replaying: bool) -> int:
    """Return a job's place in the order of its activation, which is the same on any replay.

    The SDK processes signals and updates first. If an update and an activity's result arrive
    together, a replay gets both in one activation, while the first execution may get the update in
    a later one. So results come first. A signal still precedes the results of the same activation,
    which may end the workflow. The result of a local activity precedes it: a replay has that
    already in the previous task. If a replay has it together with others, the activity went on from
    an earlier task, and ended after them. A workflow begins with the signals of its start.
    """
    match job.WhichOneof("variant"):
        case "resolve_activity" if job.resolve_activity.is_local:
            return 3 if is_replaying else 0
        case "do_update":
            return 2
        case "query_workflow":
            return 4
    return 1


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
