"""A model of the SDK's Core: makes activations of a history, and commands of their completions.

One machine follows one link on one worker. It drives the real workflow instance of the Python SDK
with perdure's runner and perdure's workflow code.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from temporalio.api.common.v1 import Payload
from temporalio.bridge.proto.activity_result import ActivityResolution
from temporalio.bridge.proto.workflow_activation import (
    RemoveFromCache,
    WorkflowActivation,
    WorkflowActivationJob,
)
from temporalio.bridge.proto.workflow_commands import WorkflowCommand

from . import failures, jobs
from .commands import CLOSING_COMMANDS, EVENTS, Command
from .history import Event, Execution, Update
from .instances import new_instance

if TYPE_CHECKING:
    from temporalio.worker._workflow_instance import WorkflowInstance

RunLocal = Callable[[WorkflowCommand, Callable[[ActivityResolution], None]], None]
"""Executes a local activity, and passes its end on."""


class Nondeterminism(Exception):
    """A replay gave other commands than the history has."""


class TaskFailed(Exception):
    """The workflow code failed a workflow task."""


class Machine:
    """One link in one worker's cache."""

    def __init__(self, execution: Execution) -> None:
        self.execution = execution
        self.instance: WorkflowInstance | None = None
        self.processed = 0
        """The last event that the workflow code has seen."""
        self.outbox: list[Command] = []
        """The commands since the last completed workflow task."""
        self.refused: dict[str, Any] = {}
        self._seqs: dict[tuple[str, int], Command] = {}
        """Open commands by their kind and number."""
        self._by_event: dict[int, Command] = {}
        """Commands that later events resolve, by their event."""
        self._updates: dict[str, Update] = {}
        self._now: list[WorkflowActivationJob] = []
        """What the next activation of the same workflow task brings."""
        self._local: dict[int, WorkflowCommand] = {}
        self.running: set[int] = set()
        """Local activities that have begun on this worker."""
        self.late: list[tuple[int, ActivityResolution]] = []
        """Ends of local activities that came between two workflow tasks."""
        self._index = 0
        """The number of activations of this workflow task. Markers of local activities record it,
        so that a replay brings their ends in the same activation."""
        self._peeked: deque[tuple[int, ActivityResolution, str, int]] = deque()
        """The recorded ends of local activities that a replay has not brought yet."""
        self.unanswered: set[str] = set()
        """Queries that the workflow has, and has not answered."""
        self.answer: Any = None
        """The worker's open workflow task of this link."""
        self._is_replaying = False
        self._at: Event | None = None

    # Workflow tasks

    def begin(
        self, history: Sequence[Event], updates: Sequence[Update], *, apart: bool = False
    ) -> list[int]:
        """Process the history up to its last event, the start of a workflow task.

        With `apart`, new updates come after the results of steps, in an activation of their own.
        Returns the numbers of the local activities to execute before `finish`. Raises
        Nondeterminism and TaskFailed.
        """
        while True:
            self._match(history)
            end = _next_task(history, self.processed)
            assert end is not None
            is_last = end == len(history)
            self._activate_task(history, end, updates if is_last else (), is_last, apart)
            if is_last:
                return list(self._local)

    def replay(
        self, history: Sequence[Event], on_task: Callable[[int], None] = lambda event: None
    ) -> None:
        """Process all completed workflow tasks of the history; `on_task` gets the start of each.

        Raises Nondeterminism and TaskFailed.
        """
        while True:
            self._match(history)
            if (end := _next_task(history, self.processed, is_running=False)) is None:
                break
            self._activate_task(history, end, (), False, False)
            on_task(end)

    def resolve_local(self, seq: int, result: ActivityResolution) -> list[int]:
        """Take the end of a local activity, and return the numbers of those that are open now."""
        self._record_local(seq, result)
        self._run()
        return list(self._local)

    def hold_local(self, seq: int, result: ActivityResolution) -> None:
        """Record the end of a local activity; the workflow sees it in a later activation."""
        self._record_local(seq, result)

    def bring_held(self) -> list[int]:
        """Let the workflow see the ends that were held, as `resolve_local` does."""
        self._run()
        return list(self._local)

    @property
    def has_held(self) -> bool:
        """Whether there are ends that the workflow has not seen."""
        return bool(self._now)

    def ask(self, queries: Sequence[tuple[str, str, Sequence[Payload]]]) -> None:
        """Ask the workflow, which may answer at once, or with a later activation."""
        self.unanswered = {id for id, _, _ in queries}
        self._activate([jobs.query(*each) for each in queries], asks=True)

    def local(self, seq: int) -> WorkflowCommand:
        """Return the command of an open local activity."""
        return self._local[seq]

    @property
    def open_local(self) -> list[int]:
        """The numbers of the local activities without an end."""
        return list(self._local)

    def finish(self) -> list[Command]:
        """Return the commands of the workflow task."""
        kept = [each for each in self.outbox if each.kind != "dropped"]
        return sorted(kept, key=lambda each: each.kind in CLOSING_COMMANDS)

    def _activate_task(
        self,
        history: Sequence[Event],
        end: int,
        updates: Sequence[Update],
        is_last: bool,
        apart: bool,
    ) -> None:
        self.refused = {}
        self._is_replaying = not is_last
        self._at = history[end - 1]
        self._index = 0
        made = _made_by(history, end)
        self._now += [
            jobs.patch(event.body.set_patch_marker.patch_id)
            for event in made
            if event.kind == "patch_marker"
        ]
        for event in history[self.processed : end]:
            self._now += self._job_of(event)
        for event in made:
            if event.kind == "update_accepted":
                self._now.append(self._update_job(event.body, run_validator=False))
            elif event.kind == "local_marker":
                self._peeked.append(event.body)
                self._bring_peeked()
        self.processed = end
        live = [self._update_job(each, run_validator=True) for each in updates]
        late, self.late = self.late if is_last else [], []
        if live and apart and not late:
            self._run()
        self._now += live
        for seq, result in late:
            if seq in self._local:
                self._record_local(seq, result)
        self._run()
        if self._peeked:
            raise Nondeterminism(f"the local activity {self._peeked[0][0]} is not asked for")

    def _bring_peeked(self, *, held: bool = False) -> None:
        """Bring the recorded ends whose turn it is, as Core does; with `held`, all that are asked
        for.
        """
        while self._peeked:
            seq, result, _, index = self._peeked[0]
            is_cancelled = any(each.kind == "local" and each.seq == seq for each in self.outbox)
            if not is_cancelled and (seq not in self._local or (index > self._index and not held)):
                return
            self._peeked.popleft()
            if not is_cancelled:
                self._record_local(seq, result)

    def _record_local(self, seq: int, result: ActivityResolution) -> None:
        asked = self._local.pop(seq).schedule_local_activity
        body = (seq, result, asked.activity_type, self._index)
        self.outbox.append(Command("local", seq, body))
        self._now.append(jobs.resolve_activity(seq, result, is_local=True))

    def _run(self) -> None:
        """Run activations until nothing more resolves at once."""
        while self._now:
            now, self._now = self._now, []
            self._activate(now)
            self._bring_peeked()
            if not self._now:
                self._bring_peeked(held=True)

    def _activate(self, batch: list[WorkflowActivationJob], *, asks: bool = False) -> None:
        at = self._at
        assert at is not None
        self._index += not asks
        activation = WorkflowActivation(
            run_id=self.execution.run_id,
            is_replaying=self._is_replaying or asks,
            history_length=at.id,
        )
        activation.timestamp.FromNanoseconds(int(at.time * 1e9))
        size, suggested = at.body
        activation.history_size_bytes, activation.continue_as_new_suggested = size, suggested
        activation.jobs.extend(batch)
        if self.instance is None:
            self.instance = new_instance(self.execution, activation)
        completion = activate(self.instance, activation)
        if completion.HasField("failed"):
            raise TaskFailed(jobs.text_of(completion.failed.failure))
        for command in completion.successful.commands:
            self._take(command)

    # Commands

    def _take(self, body: WorkflowCommand) -> None:
        match body.WhichOneof("variant"):
            case "schedule_activity":
                self._open("activity", body.schedule_activity.seq, body)
            case "schedule_local_activity":
                self._local[body.schedule_local_activity.seq] = body
            case "start_timer":
                self._open("timer", body.start_timer.seq, body)
            case "start_child_workflow_execution":
                self._open("child", body.start_child_workflow_execution.seq, body)
            case "signal_external_workflow_execution":
                self._open("signal_external", body.signal_external_workflow_execution.seq, body)
            case "request_cancel_external_workflow_execution":
                seq = body.request_cancel_external_workflow_execution.seq
                self._open("cancel_external", seq, body)
            case "request_cancel_activity":
                self._cancel_activity(body.request_cancel_activity.seq)
            case "request_cancel_local_activity":
                self._cancel_local(body.request_cancel_local_activity.seq)
            case "cancel_timer":
                self._cancel_timer(body.cancel_timer.seq)
            case "cancel_child_workflow_execution":
                raise NotImplementedError("perdure cancels children by their ids")
            case "set_patch_marker":
                self.outbox.append(Command("patch", 0, body))
            case "upsert_workflow_search_attributes":
                self.outbox.append(Command("upsert", 0, body))
            case "modify_workflow_properties":
                self.outbox.append(Command("memo", 0, body))
            case "update_response":
                self._respond(body)
            case "respond_to_query":
                self.unanswered.discard(body.respond_to_query.query_id)
            case "complete_workflow_execution":
                self.outbox.append(Command("complete", 0, body))
            case "fail_workflow_execution":
                self.outbox.append(Command("fail", 0, body))
            case "cancel_workflow_execution":
                self.outbox.append(Command("cancel", 0, body))
            case "continue_as_new_workflow_execution":
                self.outbox.append(Command("continue", 0, body))
            case other:
                raise NotImplementedError(other)

    def _open(self, kind: str, seq: int, body: WorkflowCommand) -> None:
        command = Command(kind, seq, body)
        self._seqs[kind, seq] = command
        self.outbox.append(command)

    def _cancel_activity(self, seq: int) -> None:
        command = self._seqs.pop(("activity", seq), None)
        if command is None:
            return
        body = command.body.schedule_activity
        failure = failures.cancelled(body.activity_id, body.activity_type, command.event)
        if command.event:
            self._by_event.pop(command.event, None)
            self.outbox.append(Command("cancel_activity", seq, None, command.event))
        else:
            command.kind = "dropped"
        self._now.append(jobs.resolve_activity(seq, jobs.cancelled(failure)))

    def _cancel_local(self, seq: int) -> None:
        if (command := self._local.get(seq)) is None:
            return
        body = command.schedule_local_activity
        failure = failures.cancelled(body.activity_id, body.activity_type)
        self._record_local(seq, jobs.cancelled(failure))

    def _cancel_timer(self, seq: int) -> None:
        command = self._seqs.pop(("timer", seq), None)
        if command is None:
            return
        if command.event:
            self._by_event.pop(command.event, None)
            self.outbox.append(Command("cancel_timer", seq, None, command.event))
        else:
            command.kind = "dropped"

    def _respond(self, body: WorkflowCommand) -> None:
        response = body.update_response
        update = self._updates[response.protocol_instance_id]
        if response.HasField("accepted"):
            self.outbox.append(Command("accept", 0, update))
        elif response.HasField("rejected") and update.id not in self._accepted_ids():
            self.refused[update.id] = response.rejected
        else:
            outcome = response.completed if response.HasField("completed") else response.rejected
            self.outbox.append(Command("complete_update", 0, (update, outcome)))

    def _accepted_ids(self) -> set[str]:
        accepted = {each.body.id for each in self.outbox if each.kind == "accept"}
        return accepted | {each.id for each in self._updates.values() if each.accepted_id}

    # Events

    def _match(self, history: Sequence[Event]) -> None:
        """Compare the commands of the last processed workflow task with its events."""
        if not self.processed:
            return
        made = self._match_local(_made_by(history, self.processed))
        waiting = self.finish()
        self.outbox = waiting[len(made) :]  # A replay may be a workflow task ahead.
        for command, event in zip(waiting, made, strict=False):
            if EVENTS[command.kind] != event.kind or not _same(command, event):
                raise Nondeterminism(f"event {event.id} differs: {_difference(command, event)}")
            if command.kind in ("activity", "timer", "child", "signal_external", "cancel_external"):
                command.event = event.id
                if (command.kind, command.seq) in self._seqs:
                    self._by_event[event.id] = command
        if len(waiting) < len(made):
            left = [event.kind for event in made[len(waiting) :]]
            raise Nondeterminism(
                f"the workflow task of event {self.processed} made {len(made)} events, and the "
                f"replay gives {len(waiting)} commands; missing: {left}"
            )

    def _match_local(self, made: list[Event]) -> list[Event]:
        """Take the ends of local activities out of the events: Core finds them in any order."""
        ended = {event.body[0]: event for event in made if event.kind == "local_marker"}
        waiting = {each.seq: each for each in self.outbox if each.kind == "local"}
        for seq, event in ended.items():
            if seq not in waiting or not _same(waiting[seq], event):
                raise Nondeterminism(f"event {event.id}: the local activity {seq} is not asked for")
        self.outbox = [
            each for each in self.outbox if each.kind != "local" or each.seq not in ended
        ]
        return [event for event in made if event.kind != "local_marker"]

    def _job_of(self, event: Event) -> list[WorkflowActivationJob]:
        if event.task:
            return []
        match event.kind:
            case "started":
                return [jobs.initialize(self.execution, event)]
            case "signaled":
                name, input = event.body
                return [jobs.signal(name, input, event.id)]
            case "cancel_requested":
                return [jobs.cancel(event.body)]
        command = self._by_event.get(event.ref)
        if command is None or event.kind == "activity_started":
            return []
        job = jobs.of_resolution(event, command)
        if event.kind != "child_started":
            del self._by_event[event.ref]
            self._seqs.pop((command.kind, command.seq), None)
        return [job]

    def _update_job(self, update: Update, *, run_validator: bool) -> WorkflowActivationJob:
        self._updates[update.id] = update
        return jobs.update(update, run_validator=run_validator)

    def evict(self) -> None:
        """Let the workflow's tasks end, as the SDK does before it drops a workflow."""
        if self.instance is not None:
            activation = WorkflowActivation(run_id=self.execution.run_id)
            activation.jobs.append(WorkflowActivationJob(remove_from_cache=RemoveFromCache()))
            activate(self.instance, activation)
            self.instance = None


def activate(instance: WorkflowInstance, activation: WorkflowActivation) -> Any:
    """Process the activation, and restore the running loop, which the instance clears."""
    loop = asyncio._get_running_loop()
    try:
        return instance.activate(activation)
    finally:
        asyncio._set_running_loop(loop)


def _next_task(history: Sequence[Event], processed: int, *, is_running: bool = True) -> int | None:
    """Return the id of the next started workflow task that was completed, or else of the last one
    if it `is_running`.
    """
    last = len(history)
    for event in history[processed:]:
        if event.kind != "task_started":
            continue
        if event.id < last and history[event.id].kind == "task_completed":
            return event.id
        if event.id == last and is_running:
            return event.id
    return None


def _made_by(history: Sequence[Event], started: int) -> list[Event]:
    """Return the events that the commands of the workflow task made; [] while it runs."""
    if started >= len(history) or history[started].kind != "task_completed":
        return []
    completed = started + 1
    made = []
    for event in history[completed:]:
        if event.task != completed:
            break
        made.append(event)
    return made


def _same(command: Command, event: Event) -> bool:
    mine, theirs = command.body, event.body
    if mine is theirs:
        return True
    if command.kind in ("cancel_activity", "cancel_timer"):
        return command.event == event.ref
    if command.kind == "accept":
        return bool(mine.id == theirs.id)
    if command.kind == "local":
        return bool(mine[0] == theirs[0] and mine[2] == theirs[2])
    if command.kind == "complete_update":
        return bool(mine[0].id == theirs[0].id and mine[1] == theirs[1])
    return bool(mine == theirs)


def _difference(command: Command, event: Event) -> str:
    """Return the recorded event and the replay's command, from a little before they differ."""
    theirs, mine = (
        f"{kind} {body}".replace("\n", " ")
        for kind, body in ((event.kind, event.body), (EVENTS[command.kind], command.body))
    )
    same = next(
        (place for place, pair in enumerate(zip(theirs, mine, strict=False)) if len(set(pair)) > 1),
        min(len(theirs), len(mine)),
    )
    start = max(same - 60, 0)
    head = theirs[:60]
    return f"{head} … {theirs[start : same + 300]!r}; replayed: {mine[start : same + 300]!r}"
