"""What activities ask the server for, over the connection of a real Temporal client."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from google.protobuf.message import Message
from temporalio.api.enums.v1 import WorkflowExecutionStatus
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueResponse,
    DescribeWorkflowExecutionRequest,
    DescribeWorkflowExecutionResponse,
    GetWorkflowExecutionHistoryRequest,
    GetWorkflowExecutionHistoryResponse,
    RecordActivityTaskHeartbeatRequest,
    RecordActivityTaskHeartbeatResponse,
)
from temporalio.client import Client
from temporalio.service import ConnectConfig, RPCError, RPCStatusCode, ServiceClient

from .history import Execution
from .instances import CONVERTER
from .protos import event_proto

if TYPE_CHECKING:
    from .execution import Process
    from .server import Server

STATUS = {
    "completed": WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_COMPLETED,
    "failed": WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_FAILED,
    "canceled": WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_CANCELED,
    "terminated": WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_TERMINATED,
    "continued_as_new": WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW,
}


class Service(ServiceClient):
    """The connection of one worker's process to the model of the server."""

    def __init__(self, server: Server, process: Process | None) -> None:
        super().__init__(ConnectConfig(target_host="simulated:7233"))
        self._server = server
        self._process = process

    @property
    def worker_service_client(self) -> NoReturn:
        raise NotImplementedError("simulated workers do not use the SDK's worker")

    def update_rpc_metadata(self, metadata: Mapping[str, str | bytes]) -> None:
        """Ignore metadata."""

    def update_api_key(self, api_key: str | None) -> None:
        """Ignore keys."""

    async def _rpc_call(
        self,
        rpc: str,
        req: Message,
        resp_type: type[Any],
        *,
        service: str,
        retry: bool,
        metadata: Mapping[str, str | bytes],
        timeout: timedelta | None,
    ) -> Any:
        if self._process is not None:
            await self._process.reach(rpc)
        answer = getattr(self, f"_{rpc}")(req)
        if self._process is not None:
            await self._process.reach(rpc)
        return answer

    def _execution(self, id: str, run_id: str) -> Execution:
        found = self._server.executions.get(run_id) if run_id else self._server.current.get(id)
        if found is None:
            raise RPCError("workflow execution not found", RPCStatusCode.NOT_FOUND, b"")
        return found

    def _get_workflow_execution_history(
        self, request: GetWorkflowExecutionHistoryRequest
    ) -> GetWorkflowExecutionHistoryResponse:
        execution = self._execution(request.execution.workflow_id, request.execution.run_id)
        answer = GetWorkflowExecutionHistoryResponse()
        events = execution.events
        if request.history_event_filter_type == 2:
            events = events[-1:]
        answer.history.events.extend(event_proto(execution, event) for event in events)
        return answer

    def _describe_workflow_execution(
        self, request: DescribeWorkflowExecutionRequest
    ) -> DescribeWorkflowExecutionResponse:
        execution = self._execution(request.execution.workflow_id, request.execution.run_id)
        answer = DescribeWorkflowExecutionResponse()
        info = answer.workflow_execution_info
        info.execution.workflow_id, info.execution.run_id = execution.id, execution.run_id
        info.type.name, info.first_run_id = execution.start.type, execution.start.first_run_id
        info.status = WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_RUNNING
        info.start_time.FromNanoseconds(int(execution.events[0].time * 1e9))
        info.execution_time.CopyFrom(info.start_time)
        if execution.closing is not None:
            info.status = STATUS[execution.closing.kind]
        answer.workflow_extended_info.cancel_requested = execution.cancel_requested
        for activity in execution.activities.values():
            if activity.state != "over":
                pending = answer.pending_activities.add()
                command = activity.scheduled.body.schedule_activity
                pending.activity_id = command.activity_id
                pending.activity_type.name = command.activity_type
                pending.attempt = activity.attempt
                if activity.last_failure is not None:
                    pending.last_failure.CopyFrom(activity.last_failure)
        return answer

    def _record_activity_task_heartbeat(
        self, request: RecordActivityTaskHeartbeatRequest
    ) -> RecordActivityTaskHeartbeatResponse:
        run_id, event, attempt = request.task_token.decode().rsplit(" ", 2)
        execution = self._server.executions[run_id]
        is_cancelled = self._server.beat(
            execution, (int(event), int(attempt)), list(request.details.payloads)
        )
        if is_cancelled is None:
            raise RPCError("activity task not found", RPCStatusCode.NOT_FOUND, b"")
        return RecordActivityTaskHeartbeatResponse(cancel_requested=is_cancelled)

    def _describe_task_queue(self, request: Message) -> DescribeTaskQueueResponse:
        return DescribeTaskQueueResponse()


def client_of(server: Server, process: Process | None) -> Client:
    """Return a client whose requests the model of the server answers."""
    return Client(Service(server, process), data_converter=CONVERTER)
