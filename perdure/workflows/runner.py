"""How a worker makes its workflows: perdure's own read what anybody sends when they have time for it."""

from __future__ import annotations

from dataclasses import replace

from temporalio.worker import UnsandboxedWorkflowRunner
from temporalio.worker._workflow_instance import WorkflowInstance, WorkflowInstanceDetails

from ..payloads.converter import DeferringConverter
from .agent_run import AgentRun
from .session.session import Session


class OwnWorkflowRunner(UnsandboxedWorkflowRunner):
    """The SDK's runner without a sandbox, with a `DeferringConverter` for perdure's own workflows."""

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """Return the workflow's instance."""
        if issubclass(det.defn.cls, (AgentRun, Session)):
            converter = DeferringConverter(det.payload_converter_factory())
            det = replace(det, payload_converter_factory=lambda: converter)
        return super().create_instance(det)
