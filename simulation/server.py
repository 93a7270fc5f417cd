"""A model of Temporal's server: executions, workflow tasks, signals, updates, children."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from temporalio.api.common.v1 import Payload

from . import failures
from .activity_server import ActivityServer
from .commands import CLOSING_COMMANDS, Command, carry_out
from .history import CLOSING, Event, Execution, Start, Task, Update

if TYPE_CHECKING:
    from .world import World

STICKY_SECONDS = 2.0
"""How long a workflow task waits for the worker that knows the workflow, as perdure's workers set
it."""
EVENT_BYTES = 100
SENT_LATE = frozenset(
    f"{what}_{end}"
    for what in ("activity", "child")
    for end in ("completed", "failed", "timed_out", "canceled", "terminated")
)
"""Buffered events that the server writes after all others of the same workflow task."""


class NotFound(Exception):
    """The execution is closed or unknown."""


class Server(ActivityServer):
    """All executions, and what they wait for. Whatever takes time on a network takes virtual time.

    Workers and clients call its methods as their requests arrive; the answer is the return value.
    """

    def __init__(self, world: World, suggest_after: int = 100_000) -> None:
        super().__init__(world)
        self.executions: dict[str, Execution] = {}
        self.current: dict[str, Execution] = {}
        self.waiting: list[Execution] = []
        """Executions whose workflow task found no worker."""
        self._queries = 0
        self._suggest_after = suggest_after
        """The number of events from which continue-as-new is suggested."""

    # Requests of clients

    def start(self, id: str, start: Start) -> Execution:
        """Start an execution. Raises ValueError if one with that id is open."""
        if (known := self.current.get(id)) is not None and not known.is_closed:
            raise ValueError(f"an execution with the id {id!r} is open")
        return self._begin(id, start)

    def _begin(self, id: str, start: Start) -> Execution:
        run_id = f"{id}#{len([each for each in self.executions.values() if each.id == id]) + 1}"
        start.first_run_id = start.first_run_id or run_id
        execution = Execution(id, run_id, start)
        self.executions[run_id] = self.current[id] = execution
        self.record(execution, "started", body=start)
        self.world.trace(f"server: {run_id} starts")
        self.schedule_task(execution)
        return execution

    def open(self, id: str) -> Execution:
        """Return the open execution of that id. Raises NotFound."""
        execution = self.current.get(id)
        if execution is None or execution.is_closed:
            raise NotFound(id)
        return execution

    def signal(self, id: str, name: str, input: list[Payload], request_id: str) -> Execution:
        """Record a signal; a repeated request counts once. Raises NotFound."""
        execution = self.open(id)
        if request_id not in execution.sent:
            execution.sent[request_id] = 0
            self.world.trace(f"server: {execution.run_id} gets the signal {name} ({request_id})")
            self.add(execution, "signaled", body=(name, input))
        execution.sent[request_id] += 1
        return execution

    def cancel(self, id: str) -> Execution:
        """Record a request to cancel. Raises NotFound."""
        execution = self.open(id)
        if not execution.cancel_requested:
            execution.cancel_requested = True
            self.world.trace(f"server: {execution.run_id} is to be cancelled")
            self.add(execution, "cancel_requested", body="")
        return execution

    def terminate(self, id: str) -> None:
        """Close an execution from outside. Raises NotFound."""
        execution = self.open(id)
        execution.task = None
        self.flush(execution)
        self.record(execution, "terminated")
        self.close(execution)

    def update(self, id: str, update: Update) -> Update:
        """Admit an update, or return the one with the same id. Raises NotFound."""
        execution = self.open(id)
        if (known := execution.updates.get(update.id)) is not None:
            return known
        execution.updates[update.id] = update
        update.run_id = execution.run_id
        self.world.trace(f"server: {execution.run_id} gets the update {update.id}")
        self.schedule_task(execution, has_news=False)
        return update

    def query(self, id: str, name: str, arguments: list[Payload]) -> None:
        """Ask a workflow with its next workflow task, if there is one to come. Raises NotFound."""
        execution = self.open(id)
        if execution.task is not None:
            self._queries += 1
            execution.queries.append((f"q{self._queries}", name, arguments))

    # Histories

    def record(
        self, execution: Execution, kind: str, ref: int = 0, body: Any = None, task: int = 0
    ) -> Event:
        """Append an event."""
        event = Event(len(execution.events) + 1, kind, self.world.now(), ref, body, task)
        execution.events.append(event)
        execution.bytes += _size(body)
        if kind in CLOSING:
            execution.is_closed = True
        return event

    def add(self, execution: Execution, kind: str, ref: int = 0, body: Any = None) -> None:
        """Record what happened to an execution; while a workflow task runs, after that task."""
        if execution.is_closed:
            return
        if execution.task is not None and execution.task.started_at is not None:
            execution.buffered.append((kind, ref, body))
            return
        self._record_news(execution, kind, ref, body)
        self.schedule_task(execution)

    def _record_news(self, execution: Execution, kind: str, ref: int, body: Any) -> None:
        if kind.startswith("activity_"):
            attempt, body = body
            self.record(execution, "activity_started", ref, attempt)
        self.record(execution, kind, ref, body)

    def flush(self, execution: Execution) -> bool:
        """Record the buffered events, and return whether there were any."""
        buffered, execution.buffered = execution.buffered, []
        for kind, ref, body in sorted(buffered, key=lambda each: each[0] in SENT_LATE):
            self._record_news(execution, kind, ref, body)
        return bool(buffered)

    # Workflow tasks

    def schedule_task(self, execution: Execution, *, has_news: bool = True) -> None:
        """Schedule a workflow task, unless there is one."""
        if execution.is_closed:
            return
        if execution.task is not None:
            execution.task.has_news |= has_news and execution.task.started_at is None
            return
        sticky = execution.sticky if not execution.attempts else None
        task = Task(
            execution.attempts + 1, sticky, scheduled_at=self.world.now(), has_news=has_news
        )
        execution.task = task
        if task.attempt == 1:
            task.scheduled_id = self.record(execution, "task_scheduled", body=sticky).id
        if sticky is not None:
            self.world.later(STICKY_SECONDS, lambda: self._end_sticky(execution, task))
        delay = min(0.2 * (task.attempt - 1), 2.0) + self.world.chance.delay("task")
        self.world.later(delay, lambda: self._offer(execution, task))

    def _end_sticky(self, execution: Execution, task: Task) -> None:
        if execution.task is not task or task.started_at is not None or task.sticky is None:
            return
        self.world.trace(f"server: {execution.run_id}: its worker {task.sticky} does not take it")
        self.record(execution, "task_timed_out", task.scheduled_id, "sticky")
        execution.sticky = execution.task = None
        self.schedule_task(execution)

    def _offer(self, execution: Execution, task: Task) -> None:
        """Give the task to a worker: the one that knows the workflow, or any."""
        if execution.task is not task or task.started_at is not None:
            return
        workers = [each for each in self.world.workers if each.polls]
        if task.sticky is not None:
            workers = [each for each in workers if each.name == task.sticky]
        if not workers:
            self.waiting.append(execution)
            return
        worker = self.world.chance.choice(workers)
        task.worker, task.started_at = worker.name, self.world.now()
        if task.attempt == 1:
            task.started_id = self._record_start(execution, task)
        task.queries, execution.queries = execution.queries, []
        task.updates = [each for each in execution.updates.values() if each.state == "admitted"]
        for update in task.updates:
            update.state = "sent"
        self.world.later(execution.start.task_timeout, lambda: self._time_out_task(execution, task))
        worker.take_task(execution, task)

    def _record_start(self, execution: Execution, task: Task) -> int:
        return self.record(
            execution, "task_started", task.scheduled_id, self._sizes(execution, 1)
        ).id

    def _sizes(self, execution: Execution, more: int) -> tuple[int, bool]:
        """Return the size of the history that begins a task, and whether it is to end soon."""
        count = len(execution.events) + more
        return EVENT_BYTES * count + execution.bytes, count >= self._suggest_after

    def seen_by(self, execution: Execution, task: Task) -> list[Event]:
        """Return the history that a worker gets with the task."""
        events = execution.events
        if task.attempt == 1:
            return events[: task.started_id]
        assert task.started_at is not None
        count = len(events)
        return [
            *events,
            Event(count + 1, "task_scheduled", task.scheduled_at),
            Event(count + 2, "task_started", task.started_at, count + 1, self._sizes(execution, 2)),
        ]

    def poll_again(self) -> None:
        """Offer waiting work, because a worker polls again."""
        waiting, self.waiting = self.waiting, []
        for execution in waiting:
            if (task := execution.task) is not None:
                self.world.later(0.001, partial(self._offer, execution, task))
        self.offer_activities()

    def _time_out_task(self, execution: Execution, task: Task) -> None:
        if execution.task is task:
            self.world.trace(f"server: {execution.run_id}: the workflow task timed out")
            self.fail_task(execution, task, "task_timed_out")

    def fail_task(self, execution: Execution, task: Task, kind: str, body: Any = None) -> None:
        """Give the task up, and schedule another attempt for any worker."""
        if task.attempt == 1 and task.has_news:
            self.record(execution, kind, task.started_id, body)
        elif task.attempt == 1 and task.started_id == len(execution.events):
            del execution.events[task.scheduled_id - 1 :]  # Only updates: nothing happened.
        elif task.attempt == 1:
            self.record(execution, kind, task.started_id, body)
        self._release_updates(task)
        execution.task, execution.sticky = None, None
        execution.attempts = 0 if self.flush(execution) else task.attempt
        self.schedule_task(execution)

    def _release_updates(self, task: Task) -> None:
        for update in task.updates:
            if update.state == "sent":
                update.state = "admitted"

    def complete_task(
        self,
        execution: Execution,
        task: Task,
        commands: list[Command],
        refused: dict[str, Any],
        *,
        again: bool = False,
    ) -> bool:
        """Take a worker's answer; False if the server no longer waits for it.

        With `again`, a further workflow task follows at once.
        """
        if execution.task is not task:
            return False
        is_closing = bool(commands) and commands[-1].kind in CLOSING_COMMANDS
        if is_closing and execution.buffered:
            self.world.trace(f"server: {execution.run_id}: more has come, it can't end yet")
            task.has_news = True
            self.fail_task(execution, task, "task_failed", "unhandled command")
            return False
        for id, failure in refused.items():
            execution.updates[id].state, execution.updates[id].outcome = "refused", failure
        execution.task, execution.attempts = None, 0
        is_last = task.started_id == len(execution.events)
        if not task.has_news and not commands and task.attempt == 1 and is_last:
            del execution.events[task.scheduled_id - 1 :]  # Only refused updates: no trace.
            execution.sticky, task.is_dropped = task.worker, True
            self._after_task(execution, again)
            return True
        if task.attempt > 1:
            scheduled = self.record(execution, "task_scheduled")
            scheduled.time = task.scheduled_at
            task.scheduled_id = scheduled.id
            task.started_id = self._record_start(execution, task)
            execution.event(task.started_id).time = task.started_at or 0.0
        completed = self.record(execution, "task_completed", task.started_id)
        execution.sticky = task.worker
        for command in commands:
            carry_out(self, execution, command, completed.id)
        self._after_task(execution, again)
        return True

    def _after_task(self, execution: Execution, again: bool) -> None:
        if execution.is_closed:
            self.close(execution)
            return
        if self.flush(execution) or again:
            self.schedule_task(execution)
        elif any(each.state == "admitted" for each in execution.updates.values()):
            self.schedule_task(execution, has_news=False)

    # The end of an execution

    def close(self, execution: Execution) -> None:
        """Settle what a closed execution leaves."""
        closing = execution.last
        self.world.trace(f"server: {execution.run_id} is over: {closing.kind}")
        for update in execution.updates.values():
            if update.state in ("admitted", "sent", "accepted"):
                update.state = "broken" if update.state == "accepted" else "lost"
        for activity in execution.activities.values():
            activity.state = "over"
        if closing.kind == "continued_as_new":
            command = closing.body.continue_as_new_workflow_execution
            old = execution.start
            self._begin(
                execution.id,
                Start(
                    type=command.workflow_type or old.type,
                    input=list(command.arguments),
                    task_queue=old.task_queue,
                    task_timeout=old.task_timeout,
                    memo=dict(command.memo) or old.memo,
                    attributes=old.attributes,
                    first_run_id=old.first_run_id,
                    continued_run_id=execution.run_id,
                    parent=old.parent,
                    parent_event=old.parent_event,
                ),
            )
            execution.next_run_id = self.current[execution.id].run_id
        elif execution.start.parent is not None:
            self.world.later(
                self.world.chance.delay("child's end"), lambda: self._tell_parent(execution)
            )
        for event, child in execution.children.items():
            self._close_child(execution, event, child)

    def _close_child(self, execution: Execution, event: int, child: Execution) -> None:
        policy = execution.event(event).body.start_child_workflow_execution.parent_close_policy
        now = self.current[child.id]
        if now.start.first_run_id != child.start.first_run_id or now.is_closed or policy == 2:
            return
        act: Callable[[str], object] = self.cancel if policy == 3 else self.terminate
        act(child.id)

    def _tell_parent(self, child: Execution) -> None:
        assert child.start.parent is not None
        parent = self.executions[child.start.parent[1]]
        if parent.is_closed:
            return
        closing, event = child.last, child.start.parent_event
        kind, body = f"child_{closing.kind}", closing.body
        if closing.kind == "completed":
            body = closing.body.complete_workflow_execution.result
        else:
            cause = {
                "canceled": failures.child_cancelled,
                "terminated": failures.child_terminated,
            }.get(closing.kind)
            failure = cause() if cause is not None else closing.body.fail_workflow_execution.failure
            body = failures.of_child(child.id, child.run_id, child.start.type, event, failure)
        self.add(parent, kind, event, body)


def _size(body: Any) -> int:
    return body.ByteSize() if hasattr(body, "ByteSize") else 0
