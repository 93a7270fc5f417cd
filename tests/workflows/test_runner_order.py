"""What comes together is done in one order, live and on a replay."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio import activity, workflow
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.bridge.proto.workflow_activation import WorkflowActivation, WorkflowActivationJob
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.client import Client, WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, Worker
from temporalio.worker._workflow_instance import WorkflowInstance, WorkflowInstanceDetails

from perdure.worker import PerdurePlugin
from perdure.workflows.runner import (
    OwnWorkflowRunner,
    _OwnInstance,
    comes_before_its_task,
    parts_of,
)

SOON = timedelta(seconds=20)
DECIDED_BETWEEN = Path(__file__).with_name("decided-between-local-activities.json")
"""From a simulated schedule."""
UPDATES = (
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED,
)


@activity.defn
async def answer() -> str:
    return "answered"


@workflow.defn(sandboxed=False)
class Decides:
    """Issues a command when it begins to wait for a decision, as a run does."""

    @workflow.init
    def __init__(self) -> None:
        self.is_decided = False

    @workflow.run
    async def run(self) -> None:
        await workflow.execute_activity(answer, start_to_close_timeout=SOON)
        workflow.upsert_memo({"waits": True})
        await workflow.wait_condition(lambda: self.is_decided)

    @workflow.update
    async def decide(self) -> None:
        self.is_decided = True


def _as_one_task(events: list[HistoryEvent]) -> list[HistoryEvent]:
    """Return the history that it is where the decision comes in the task that brings the result.

    So Temporal records it where that task has waited too long for the worker that knows the
    workflow.
    """
    memo = next(
        e for e in events if e.event_type == EventType.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED
    )
    accepted = next(e for e in events if e.event_type == UPDATES[0])
    gone = accepted.event_id - memo.event_id - 1
    assert gone > 0
    task = memo.workflow_properties_modified_event_attributes.workflow_task_completed_event_id
    rest = events[accepted.event_id - 1 :]
    for event in rest:
        event.event_id -= gone
    accepted.workflow_execution_update_accepted_event_attributes.accepted_request_sequencing_event_id = (
        task - 2
    )
    completed = next(e for e in rest if e.event_type == UPDATES[1])
    completed.workflow_execution_update_completed_event_attributes.accepted_event_id = (
        accepted.event_id
    )
    rest[-1].workflow_execution_completed_event_attributes.workflow_task_completed_event_id = task
    return [*events[: memo.event_id], *rest]


async def _recorded(client: Client, task_queue: str) -> WorkflowHistory:
    async with Worker(
        client,
        task_queue=task_queue,
        workflows=[Decides],
        activities=[answer],
        unsandboxed_workflow_runner=OwnWorkflowRunner(),
    ):
        run = await client.start_workflow(Decides.run, id=task_queue, task_queue=task_queue)
        while not await (await run.describe()).memo_value("waits", False):
            continue
        await run.execute_update(Decides.decide)
        await run.result()
    return WorkflowHistory(task_queue, _as_one_task(list((await run.fetch_history()).events)))


async def test_a_decision_in_the_task_that_brings_a_result(client: Client, task_queue: str) -> None:
    history = await _recorded(client, task_queue)
    await Replayer(workflows=[Decides], plugins=[PerdurePlugin()]).replay_workflow(history)
    plain = Replayer(workflows=[Decides], unsandboxed_workflow_runner=UnsandboxedWorkflowRunner())
    result = await plain.replay_workflow(history, raise_on_replay_failure=False)
    assert "Nondeterminism" in str(
        result.replay_failure
    )  # the SDK's own order, without which this shows nothing


def _job(kind: str) -> WorkflowActivationJob:
    job = WorkflowActivationJob()
    if kind == "local":
        job.resolve_activity.is_local = True
    else:
        getattr(job, kind).SetInParent()
    return job


@pytest.mark.parametrize(
    ("come", "parts"),
    [
        ([], [[]]),
        (["notify_has_patch"], [["notify_has_patch"]]),
        (["local", "notify_has_patch"], [["notify_has_patch", "resolve_activity"]]),
        (["local", "resolve_activity"], [["resolve_activity"], ["resolve_activity"]]),
        (
            ["initialize_workflow", "notify_has_patch"],
            [["notify_has_patch", "initialize_workflow"]],
        ),
        (
            ["do_update", "signal_workflow", "resolve_activity", "local", "notify_has_patch"],
            [
                ["notify_has_patch", "signal_workflow", "resolve_activity"],
                ["do_update"],
                ["resolve_activity"],
            ],
        ),
        (["query_workflow", "do_update"], [["do_update"], ["query_workflow"]]),
        (["local", "do_update"], [["do_update"], ["resolve_activity"]]),
    ],
)
def test_patches_are_known_before_anything_is_done(come: list[str], parts: list[list[str]]) -> None:
    assert [
        [job.WhichOneof("variant") for job in part]
        for part in parts_of([_job(kind) for kind in come])
    ] == parts


@pytest.mark.parametrize(
    ("length", "size", "seconds", "is_replaying", "kind", "is_before"),
    [
        (8, 2106, 1, False, "signal_workflow", True),
        (24, 2106, 1, False, "resolve_activity", True),
        (3, 2106, 1, False, "local", False),
        (9, 2900, 2, False, "signal_workflow", False),
        (9, 0, 2, False, "signal_workflow", False),
        (9, 2106, 2, False, "signal_workflow", False),
        (8, 2106, 1, True, "query_workflow", False),
        (8, 0, 0, False, "remove_from_cache", False),
    ],
)
def test_events_without_a_task_that_a_query_brings(
    length: int, size: int, seconds: int, is_replaying: bool, kind: str, is_before: bool
) -> None:
    """As Core brings them: the third event of the history began the last workflow task."""
    last = WorkflowActivation(history_length=3, history_size_bytes=2106)
    last.timestamp.FromSeconds(1)
    act = WorkflowActivation(
        history_length=length,
        history_size_bytes=size,
        is_replaying=is_replaying,
        jobs=[_job(kind)],
    )
    act.timestamp.FromSeconds(seconds)
    assert comes_before_its_task(act, last) is is_before


async def test_a_decision_between_the_ends_of_two_local_activities() -> None:
    """The first end was recorded by the task before, so a replay asks for the second one there."""
    recorded = WorkflowHistory.from_json("run/1", DECIDED_BETWEEN.read_text())
    await Replayer(workflows=[], plugins=[PerdurePlugin()]).replay_workflow(recorded)


@workflow.defn(sandboxed=False)
class Counts:
    """Ends with the number of messages that have come before the end of its local activity."""

    @workflow.init
    def __init__(self) -> None:
        self.messages = 0

    @workflow.run
    async def run(self) -> int:
        await workflow.wait_condition(lambda: bool(self.messages))
        await workflow.execute_local_activity(ends_with_query, start_to_close_timeout=SOON)
        return self.messages

    @workflow.signal
    def steer(self) -> None:
        self.messages += 1

    @workflow.query
    def count(self) -> int:
        return self.messages


@activity.defn
async def ends_with_query() -> None:
    _goes_on.set()
    assert await asyncio.to_thread(_has_come.wait, 10)
    _ends.set()


class _Asked(_OwnInstance):
    """Takes its first query when a message has been sent and the local activity has ended."""

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        if act.jobs[0].HasField("query_workflow") and not _is_asked.is_set():
            _is_asked.set()
            assert _ends.wait(1.5)
            time.sleep(0.2)  # until Core has the end
        return super().activate(act)


class _Asks(OwnWorkflowRunner):
    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        return _Asked(det)  # type: ignore[abstract]


_goes_on, _is_asked, _has_come, _ends = (threading.Event() for _ in range(4))


async def test_a_message_that_comes_while_a_query_is_answered(
    client: Client, task_queue: str
) -> None:
    """With the answer, Core would report the end of the local activity. The next step, which ends
    the run, would then come before the message.
    """
    async with Worker(
        client,
        task_queue=task_queue,
        workflows=[Counts],
        activities=[ends_with_query],
        unsandboxed_workflow_runner=_Asks(),
    ):
        run = await client.start_workflow(
            Counts.run, id=task_queue, task_queue=task_queue, task_timeout=timedelta(seconds=2)
        )
        await run.signal(Counts.steer)
        assert await asyncio.to_thread(_goes_on.wait, 10)
        # The server passes it on with the next task, when Core asks for more time.
        answer = asyncio.create_task(run.query(Counts.count))
        assert await asyncio.to_thread(_is_asked.wait, 10)
        await run.signal(Counts.steer)
        _has_come.set()
        assert await run.result() == 2
        assert await answer == 2
    replayer = Replayer(workflows=[Counts], plugins=[PerdurePlugin()])
    await replayer.replay_workflow(await run.fetch_history())
