"""How runs and sessions stand after each of their workflow tasks, live and on a replay.

A replay that gives the same commands may still have gone another way: read a message in another
iteration, say, and then its operations do not chain with the recorded ones. So what workflows know
is compared, not only what they do.
"""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from pydantic_core import to_json
from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.client import Client, WorkflowHistory
from temporalio.worker import Replayer
from temporalio.worker._workflow_instance import WorkflowInstance, WorkflowInstanceDetails

from perdure.json_types import JsonObject
from perdure.protocol.session import SessionStatus
from perdure.workflows.agent_run import AgentRun
from perdure.workflows.runner import OwnWorkflowRunner
from perdure.workflows.session.session import Session

TIMES = {
    "started_at",
    "held_seconds",
    "since",
    "until",
    "deadline",
    "at",
}
ACCEPTED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED
TASK_SCHEDULED = EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED
TASK_STARTED = EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED
TASK_COMPLETED = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED


def stand_of(workflow: AgentRun | Session) -> JsonObject:
    """Return all that a run or a session goes by later: conversation, state of the loop, decisions,
    what waits.
    """
    if isinstance(workflow, Session):
        status: SessionStatus = workflow.status()
        return dict(status)
    state = workflow.state
    return {
        "conversation": [state.conversation.version, state.conversation.digest],
        "loop": state.loop,
        "steering": list(state.steering),
        "unread": state.unread,
        "decided": state.approvals.decided,
        "status": state.status,
        "options": state.options,
        "models": list(state.models),
        "cancelled": state.cancelled,
    }


@dataclass
class Stands:
    """Of each execution, by its run id and then by the length of the history that a task had, as
    JSON.
    """

    first: dict[str, dict[int, bytes]] = field(default_factory=dict)
    """After the first activation of each task: what it says does not rest on a local activity of
    the same task."""
    last: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    """After the last activation of the execution here, with the length of the history then."""
    losses: random.Random | None = None
    """Decides which completions of workflow tasks are lost, one of three; None for none."""
    lost: int = 0
    """How many were."""

    def note(self, act: WorkflowActivation, stand: JsonObject) -> None:
        """Note how a workflow stands after that activation."""
        text = to_json(stand)
        self.last[act.run_id] = act.history_length, text
        self.first.setdefault(act.run_id, {})[act.history_length] = text

    def loses(self) -> bool:
        """Return whether this completion is to be lost."""
        is_lost = self.losses is not None and self.losses.random() < 1 / 3
        self.lost += is_lost
        return is_lost


class _Noting:
    """A workflow's instance that notes how it stands, and loses completions."""

    def __init__(self, instance: WorkflowInstance, stands: Stands) -> None:
        self._instance = instance
        self._stands = stands
        self._length = -1

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        done = self._instance.activate(act)
        if done.HasField("failed"):
            return done
        if not act.is_replaying and self._stands.loses():
            # All that the server sees of it is a task that has failed: it gives the task to a
            # worker again.
            lost = WorkflowActivationCompletion(run_id=act.run_id)
            lost.failed.failure.message = "lost by the test"
            return lost
        workflow = self._instance._object  # type: ignore[attr-defined]
        if isinstance(workflow, (AgentRun, Session)) and not _changes_nothing(act):
            stand = stand_of(workflow)
            if act.history_length == self._length:
                self._stands.last[act.run_id] = act.history_length, to_json(stand)
            else:
                self._stands.note(act, stand)
            self._length = act.history_length
        return done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._instance, name)


def _changes_nothing(act: WorkflowActivation) -> bool:
    """Whether it only asks, or is the last one, by which a worker forgets the workflow."""
    return all(
        job.HasField("query_workflow") or job.HasField("remove_from_cache") for job in act.jobs
    )


class NotingRunner(OwnWorkflowRunner):
    """perdure's runner of workflows, which notes how each stands after each of its tasks."""

    def __init__(self, stands: Stands) -> None:
        super().__init__()
        self._stands = stands

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        return _Noting(super().create_instance(det), self._stands)  # type: ignore[return-value]


def cuts_of(history: WorkflowHistory) -> list[WorkflowHistory]:
    """Return what there was of a history when each of its workflow tasks began, as a worker may be
    given it.

    A task that accepted an update is left out: the history has the update only once the task is
    completed.
    """
    events = history.events
    began = [place for place, event in enumerate(events) if event.event_type == TASK_STARTED]
    told = [place for place in began if _is_told_by_history(events[place + 1 :])]
    return [WorkflowHistory(history.workflow_id, events[: place + 1]) for place in told]


def _is_told_by_history(rest: Sequence[HistoryEvent]) -> bool:
    if not rest or rest[0].event_type != TASK_COMPLETED:
        return False
    of_task = takewhile(lambda event: event.event_type not in (TASK_SCHEDULED, TASK_STARTED), rest)
    return all(event.event_type != ACCEPTED for event in of_task)


async def differences(
    client: Client, histories: AsyncIterator[WorkflowHistory], live: Stands
) -> list[str]:
    """Replay histories of runs and sessions, cut or whole. Returns where they stand otherwise than
    they did live.

    Raises what the replay does.
    """
    stands = Stands()
    replayer = Replayer(
        workflows=[AgentRun, Session],
        data_converter=client.data_converter,
        unsandboxed_workflow_runner=NotingRunner(stands),
        # without the detector of deadlocks: a busy machine takes 2 s for a flood now and then
        debug_mode=True,
    )
    found = []
    async with replayer.workflow_replay_iterator(histories) as results:
        async for result in results:
            if result.replay_failure:
                raise result.replay_failure
            found += _difference(result.history, live, stands)
    return found


def _is_reset(event: HistoryEvent) -> bool:
    failed = event.workflow_task_failed_event_attributes
    return failed.cause == WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW


def _without_times(stand: JsonObject) -> JsonObject:
    """The clock of a workflow may be another one on a replay, by some milliseconds, where somebody
    queried the run.
    """
    return {key: value for key, value in stand.items() if key not in TIMES}


def _difference(history: WorkflowHistory, live: Stands, replay: Stands) -> list[str]:
    if any(map(_is_reset, history.events)):
        return []  # Its run id is that of the execution before.
    run_id, length = history.run_id, len(history.events)
    is_cut = history.events[-1].event_type == TASK_STARTED
    began, now = replay.last[run_id]
    # Another worker may have gone on with it.
    lasts = dict([live.last[run_id]] if run_id in live.last else [])
    then = live.first.get(run_id, {}).get(length) if is_cut else lasts.get(began)
    if then is None or then == now:
        return []
    before, after = (json.loads(stand, object_hook=_without_times) for stand in (then, now))
    if before == after:
        return []
    parts = [
        f"{key}: {before[key]} live, {after[key]} replayed"
        for key in before
        if before[key] != after[key]
    ]
    return [f"{history.workflow_id}, after {length} events: {'; '.join(parts)}"]
