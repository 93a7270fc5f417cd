"""A run that needs more than its worker has waits for another worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from temporalio import workflow
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowExecutionStatus, WorkflowHandle
from temporalio.worker import Worker

from perdure.messages import Message
from perdure.protocol.features import KNOWN_FEATURES
from perdure.protocol.names import WORKFLOW
from perdure.protocol.outcome import RunOutput
from perdure.protocol.run import RunInput
from perdure.testing import ScriptedModel, says
from perdure.testing.script import Script
from perdure.worker import PerdurePlugin
from perdure.workflows.agent_run import AgentRun

from ..support.agents import scripted_agent
from ..support.stage import Stage
from ..support.waiting import wait_for

Scripted = Callable[[Script], ScriptedModel]


@workflow.defn(name=WORKFLOW, sandboxed=False)
class NewerAgentRun(AgentRun):
    """The workflow of a version that knows one feature more."""

    known_features = KNOWN_FEATURES | {"telepathy"}

    @workflow.init
    def __init__(self, input: RunInput) -> None:
        super().__init__(input)

    @workflow.run
    async def run(self, input: RunInput) -> RunOutput:
        return await super().run(input)


class NewerPlugin(PerdurePlugin):
    """perdure's plugin of that version."""

    def configure_worker(self, config: Any) -> Any:
        return {**super().configure_worker(config), "workflows": [NewerAgentRun]}


async def failed_tasks(handle: WorkflowHandle[Any, Any]) -> list[str]:
    """Why the run's workflow tasks have failed."""
    return [
        event.workflow_task_failed_event_attributes.failure.message
        async for event in handle.fetch_history_events()
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
    ]


async def test_it_waits_for_a_worker_that_has_it(
    stage: Stage, scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    input = RunInput(
        agent=scripted_agent(scripted([says("I knew")])), messages=[Message.user("Guess")], features=["telepathy"]
    )
    async with stage.worker():
        handle = await stage.client.start_workflow(
            WORKFLOW,
            input,
            id=stage.task_queue,
            task_queue=stage.task_queue,
            result_type=RunOutput,
            # The SDK reports the first failure only: each further task of the run ends with its time-out.
            task_timeout=timedelta(seconds=1),
        )
        [reason] = await wait_for(lambda: failed_tasks(handle))
        assert reason.startswith(f"the run {handle.id!r} (link {handle.first_execution_run_id}) needs telepathy, ")
        assert (await handle.describe()).status == WorkflowExecutionStatus.RUNNING
    assert reason in caplog.text

    async with Worker(stage.client, task_queue=stage.task_queue, plugins=[NewerPlugin()]):
        assert (await asyncio.wait_for(handle.result(), 30)).output == "I knew"
