"""How a worker makes its workflows: perdure's own read what anybody sends when they have time for it."""

from __future__ import annotations

import threading
from dataclasses import replace

from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.worker import UnsandboxedWorkflowRunner
from temporalio.worker._workflow_instance import WorkflowInstance, WorkflowInstanceDetails, _WorkflowInstanceImpl

from ..payloads.converter import DeferringConverter
from .agent_run import AgentRun
from .session.session import Session


class _SerialInstance(_WorkflowInstanceImpl):
    """The SDK's instance of a workflow, which no two threads run at the same time.

    Where a workflow task takes longer than the SDK's detector of deadlocks allows, as on a machine that is too busy,
    the SDK evicts the workflow on another thread, also when the first one still runs it. A workflow that two threads
    have run can't be evicted any more, and its worker would never end.
    """

    def __init__(self, det: WorkflowInstanceDetails) -> None:
        super().__init__(det)
        self._turn = threading.Lock()

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        """Do what the activation asks for, after what other threads do."""
        with self._turn:
            return super().activate(act)


class OwnWorkflowRunner(UnsandboxedWorkflowRunner):
    """The SDK's runner without a sandbox, with a `DeferringConverter` for perdure's own workflows."""

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """Return the workflow's instance."""
        if issubclass(det.defn.cls, (AgentRun, Session)):
            converter = DeferringConverter(det.payload_converter_factory())
            det = replace(det, payload_converter_factory=lambda: converter)
        return _SerialInstance(det)  # type: ignore[abstract]
