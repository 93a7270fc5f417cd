"""How a worker makes its workflows, and which of their tasks it leaves to another worker."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import replace
from itertools import groupby

from temporalio.bridge.proto.workflow_activation import WorkflowActivation, WorkflowActivationJob
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.worker import UnsandboxedWorkflowRunner
from temporalio.worker._workflow_instance import WorkflowInstance, WorkflowInstanceDetails, _WorkflowInstanceImpl

from ..payloads.converter import DeferringConverter
from ..redaction import get_logger
from .agent_run import AgentRun
from .session.session import Session

_log = get_logger("perdure.runs")
DONE_FIRST = ("notify_has_patch", "update_random_seed")
WORKER_FAILED = "a local activity was not executed, because its worker has failed: another worker goes on with the run"


class _OwnInstance(_WorkflowInstanceImpl):
    """The SDK's instance of a workflow, which no two threads run at the same time, and which no failed worker ends.

    Where a workflow task takes longer than the SDK's detector of deadlocks allows, as on a machine that is too busy,
    the SDK evicts the workflow on another thread, also when the first one still runs it. A workflow that two threads
    have run can't be evicted any more, and its worker would never end.
    """

    def __init__(self, det: WorkflowInstanceDetails) -> None:
        super().__init__(det)
        self._turn = threading.Lock()

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        """Do what the activation asks for, after what other threads do; fail a task that a failed worker answers."""
        if not act.is_replaying and any(map(_is_left_by_worker, act.jobs)):
            run = self._info.workflow_id
            _log.warning("Run %s: %s", run, WORKER_FAILED, extra={"run": run})
            completion = WorkflowActivationCompletion(run_id=act.run_id)
            completion.failed.failure.message = WORKER_FAILED
            return completion
        with self._turn:
            return self._activate_in_order(act)

    def _activate_in_order(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        """Do the jobs one kind after the other, each as if it had come alone."""
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
        return whole


def parts_of(jobs: Collection[WorkflowActivationJob]) -> list[list[WorkflowActivationJob]]:
    """Return the jobs of an activation in the parts in which they are done; one part at least.

    What the SDK does before all others, such as to hear which patches the history has, is done before the first.
    """
    first = [job for job in jobs if job.WhichOneof("variant") in DONE_FIRST]
    others = [job for job in jobs if job.WhichOneof("variant") not in DONE_FIRST]
    parts = [list(each) for _, each in groupby(sorted(others, key=_place), key=_place)] or [[]]
    return [[*first, *parts[0]], *parts[1:]]


def _place(job: WorkflowActivationJob) -> int:
    """Return when a job is done among those of an activation: what has come first on any replay comes first.

    The SDK does signals and updates first. Where an update comes together with the result of an activity, it gets them
    in one activation on a replay, but may get the update in a later one when they come. So results are done first.
    A signal still comes before the results of the same activation, which may end the workflow, but for the result of a
    local activity: a replay knows that already in the task before. A workflow begins with the signals that it is
    started with.
    """
    match job.WhichOneof("variant"):
        case "resolve_activity" if job.resolve_activity.is_local:
            return 0
        case "do_update":
            return 2
        case "query_workflow":
            return 3
    return 1


def _is_left_by_worker(job: WorkflowActivationJob) -> bool:
    """Return whether the SDK has answered for a local activity because the worker's part for activities has failed.

    Its answer is a failure without a type, which no activity has; nothing was executed. It is no failure of the run,
    and never recorded where the task fails. Histories of older workers have it as the end of their runs: these are
    replayed as they are.
    """
    if not job.HasField("resolve_activity") or not job.resolve_activity.is_local:
        return False
    result = job.resolve_activity.result
    return result.HasField("failed") and result.failed.failure.WhichOneof("failure_info") is None


class OwnWorkflowRunner(UnsandboxedWorkflowRunner):
    """The SDK's runner without a sandbox, with a `DeferringConverter` for perdure's own workflows."""

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """Return the workflow's instance."""
        if issubclass(det.defn.cls, (AgentRun, Session)):
            converter = DeferringConverter(det.payload_converter_factory())
            det = replace(det, payload_converter_factory=lambda: converter)
        return _OwnInstance(det)  # type: ignore[abstract]
