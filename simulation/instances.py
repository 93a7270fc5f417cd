"""Makes the SDK's workflow instances, as its worker does, without a worker."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import temporalio.common
import temporalio.converter
import temporalio.workflow
from temporalio.api.common.v1 import Payloads
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.worker._workflow_instance import WorkflowInstance, WorkflowInstanceDetails

from perdure.payloads.converter import perdure_data_converter
from perdure.workflows.agent_run import AgentRun
from perdure.workflows.notices import Notice
from perdure.workflows.runner import OwnWorkflowRunner
from perdure.workflows.session.session import Session

from .history import Execution
from .jobs import started_of

CONVERTER = perdure_data_converter
_runner = OwnWorkflowRunner()
_definitions = {
    definition.name: definition
    for definition in map(
        temporalio.workflow._Definition.must_from_class, (AgentRun, Session, Notice)
    )
}
_extern: dict[str, Any] = {
    "__temporal_get_metric_meter": lambda: temporalio.common.MetricMeter.noop,
    "__temporal_assert_local_activity_valid": lambda name: None,
}


def new_instance(execution: Execution, activation: WorkflowActivation) -> WorkflowInstance:
    """Return the instance that the activation begins."""
    job = started_of(activation)
    assert job is not None
    init = job.initialize_workflow
    parent = None
    if init.HasField("parent_workflow_info"):
        above = init.parent_workflow_info
        parent = temporalio.workflow.ParentInfo(
            namespace=above.namespace, run_id=above.run_id, workflow_id=above.workflow_id
        )
    attributes = init.search_attributes
    info = temporalio.workflow.Info(
        attempt=1,
        continued_run_id=init.continued_from_execution_run_id or None,
        cron_schedule=None,
        execution_timeout=None,
        first_execution_run_id=init.first_execution_run_id,
        headers={},
        namespace="default",
        original_execution_run_id=init.original_execution_run_id,
        parent=parent,
        root=None,
        raw_memo=dict(init.memo.fields),
        retry_policy=None,
        run_id=execution.run_id,
        run_timeout=None,
        search_attributes=temporalio.converter.decode_search_attributes(attributes),
        start_time=activation.timestamp.ToDatetime().replace(tzinfo=UTC),
        workflow_start_time=init.start_time.ToDatetime().replace(tzinfo=UTC),
        task_queue=execution.start.task_queue,
        task_timeout=init.workflow_task_timeout.ToTimedelta(),
        typed_search_attributes=temporalio.converter.decode_typed_search_attributes(attributes),
        workflow_id=execution.id,
        workflow_type=init.workflow_type,
        priority=temporalio.common.Priority.default,
    )
    details = WorkflowInstanceDetails(
        payload_converter_factory=CONVERTER._new_payload_converter,
        failure_converter_class=CONVERTER.failure_converter_class,
        interceptor_classes=[],
        defn=_definitions[init.workflow_type],
        info=info,
        randomness_seed=init.randomness_seed,
        extern_functions=_extern,
        disable_eager_activity_execution=False,
        worker_level_failure_exception_types=[],
        patch_activation_callback=None,
        last_completion_result=Payloads(),
        last_failure=None,
    )
    return _runner.create_instance(details)
