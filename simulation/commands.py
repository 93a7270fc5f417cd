"""What the server does with the commands of a workflow task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from temporalio.api.failure.v1 import Failure

from .history import Activity, Event, Execution, Start, Update

if TYPE_CHECKING:
    from .server import Server

CLOSING_COMMANDS = ("complete", "fail", "cancel", "continue")


@dataclass(slots=True)
class Command:
    """One command of a worker. `body` is the SDK's `WorkflowCommand`, or what a marker records."""

    kind: str
    seq: int = 0
    body: Any = None
    event: int = 0
    """The event that it made; for a cancellation, the event that it cancels."""


EVENTS = {
    "activity": "activity_scheduled",
    "cancel_activity": "activity_cancel_requested",
    "timer": "timer_started",
    "cancel_timer": "timer_canceled",
    "local": "local_marker",
    "patch": "patch_marker",
    "upsert": "upserted",
    "memo": "memo_changed",
    "child": "child_initiated",
    "signal_external": "external_signal_initiated",
    "cancel_external": "external_cancel_initiated",
    "accept": "update_accepted",
    "complete_update": "update_completed",
    "complete": "completed",
    "fail": "failed",
    "cancel": "canceled",
    "continue": "continued_as_new",
}
"""The event that each command makes."""


def carry_out(server: Server, execution: Execution, command: Command, task: int) -> None:
    """Record the command's event, and begin what it asks for."""
    event = server.record(execution, EVENTS[command.kind], command.event, command.body, task)
    if (act := _ACTIONS.get(command.kind)) is not None:
        act(server, execution, event)


def _activity(server: Server, execution: Execution, event: Event) -> None:
    activity = Activity(event)
    execution.activities[event.id] = activity
    server.schedule_attempt(execution, activity, 0.0)


def _cancel_activity(server: Server, execution: Execution, event: Event) -> None:
    activity = execution.activities.get(event.ref)
    if activity is None or activity.state == "over":
        return
    activity.is_cancelled = True
    if activity.state == "waiting":
        activity.state = "over"
        server.add(execution, "activity_canceled", event.ref, (activity.attempt, None))


def _timer(server: Server, execution: Execution, event: Event) -> None:
    seconds = event.body.start_timer.start_to_fire_timeout.ToNanoseconds() / 1e9

    def fire() -> None:
        if execution.timers.pop(event.id, None) is not None:
            server.add(execution, "timer_fired", event.id)

    execution.timers[event.id] = server.world.later(seconds, fire)


def _cancel_timer(server: Server, execution: Execution, event: Event) -> None:
    if (timer := execution.timers.pop(event.ref, None)) is not None:
        timer.cancel()


def _upsert(server: Server, execution: Execution, event: Event) -> None:
    fields = event.body.upsert_workflow_search_attributes.search_attributes.indexed_fields
    for name, payload in fields.items():
        execution.attributes[name] = payload.data.decode()


def _child(server: Server, execution: Execution, event: Event) -> None:
    command = event.body.start_child_workflow_execution
    start = Start(
        type=command.workflow_type,
        input=list(command.input),
        task_queue=command.task_queue or execution.start.task_queue,
        task_timeout=command.workflow_task_timeout.ToNanoseconds() / 1e9 or 10.0,
        memo=dict(command.memo),
        attributes=command.search_attributes,
        parent=(execution.id, execution.run_id),
        parent_event=event.id,
    )

    def begin() -> None:
        if execution.is_closed:
            return
        try:
            child = server.start(command.workflow_id, start)
        except ValueError:
            server.add(execution, "child_start_failed", event.id, command)
            return
        execution.children[event.id] = child
        server.add(execution, "child_started", event.id, child.run_id)

    server.world.later(server.world.chance.delay("child's start"), begin)


def _signal_external(server: Server, execution: Execution, event: Event) -> None:
    command = event.body.signal_external_workflow_execution

    def send() -> None:
        id = command.workflow_execution.workflow_id or command.child_workflow_id
        request = f"{execution.run_id}/{event.id}"
        _reach(
            server,
            execution,
            event,
            "external_signaled",
            lambda: server.signal(id, command.signal_name, list(command.args), request),
        )

    server.world.later(server.world.chance.delay("external signal"), send)


def _cancel_external(server: Server, execution: Execution, event: Event) -> None:
    command = event.body.request_cancel_external_workflow_execution

    def send() -> None:
        id = command.workflow_execution.workflow_id
        _reach(server, execution, event, "external_cancel_done", lambda: server.cancel(id))

    server.world.later(server.world.chance.delay("external cancel"), send)


def _reach(
    server: Server, execution: Execution, event: Event, done: str, act: Callable[[], object]
) -> None:
    from .server import NotFound

    try:
        act()
    except NotFound:
        failure = Failure(message="unable to reach the external workflow: not found")
        server.add(execution, f"{done}_failed", event.id, failure)
    else:
        server.add(execution, done, event.id)


def _accept(server: Server, execution: Execution, event: Event) -> None:
    update: Update = event.body
    update.state, update.accepted_id = "accepted", event.id


def _complete_update(server: Server, execution: Execution, event: Event) -> None:
    update, outcome = event.body
    update.state, update.outcome = "done", outcome


_ACTIONS: dict[str, Callable[[Any, Execution, Event], None]] = {
    "activity": _activity,
    "cancel_activity": _cancel_activity,
    "timer": _timer,
    "cancel_timer": _cancel_timer,
    "upsert": _upsert,
    "child": _child,
    "signal_external": _signal_external,
    "cancel_external": _cancel_external,
    "accept": _accept,
    "complete_update": _complete_update,
}
