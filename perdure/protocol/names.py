"""The names by which Temporal knows the workflow, its signals, updates and queries."""

from __future__ import annotations

WORKFLOW = "perdure.AgentRun"
STEER = "steer"
APPROVAL = "approval"
"""A signal, which is dropped where it does not fit, and an update of the same argument, which answers."""
REFUSED = "approval_refused"
"""Error type: an update's decision was not accepted. The details are an object with the reason's `kind`."""
GO_ON = "go_on"
"""Lets a held run go on: a signal, which is dropped where it does not fit, and an update, which answers."""
GO_ON_REFUSED = "go_on_refused"
"""Error type: the run was not let go on. The details are an object with the reason's `kind`."""
COMPLETE = "complete"
"""An update of a run: another system finishes one of its tool calls."""
COMPLETION_REFUSED = "completion_refused"
"""Error type: a call was not finished. The details are an object with the reason's `kind`."""
SESSION_WORKFLOW = "perdure.Session"
SEND = "send"
"""An update of a session: a message to it."""
CLOSE = "close"
"""An update of a session: it takes no more messages."""
HAND_OVER = "hand_over"
"""A signal to a session: a part of what one of its turns has added to the conversation."""
NOTE = "note"
"""A signal to a session: an event that somebody wants to find among its own."""
NOT_TAKEN = "message_not_taken"
"""Error type: a session did not take a message. The details are an object with the reason's `kind`."""
PERMIT = "perdure.permit"
"""The activity that does nothing: Temporal limits how many of them a second it gives out on a rate queue."""
IS_POLLED = "perdure.is_polled"
PUSH = "push"
"""A signal to a run: whom an A2A client wants to be told of it."""
NOTICE_WORKFLOW = "perdure.Notice"
"""The workflow that tells webhooks what has become of a run, for as long as that takes."""
NOTIFY = "perdure.notify"
"""The activity that starts it."""
SEND_NOTICE = "perdure.send_notice"
"""The activity by which it sends a notice to one webhook."""
WORKER_ACCOUNT = "perdure.worker_account"
"""The activity by which a worker tells what it has, on a queue of its own (`own_queue`)."""
STATUS = "status"
EVENTS = "events"


def tool_queue(task_queue: str, tool: str) -> str:
    """Return the queue from which each worker takes no more calls of a tool at a time than it may execute."""
    return f"{task_queue}/tool/{tool}"


def own_queue(task_queue: str, identity: str) -> str:
    """Return the queue that only one worker of a task queue polls, where it is asked what it has."""
    return f"{task_queue}/worker/{identity}"


def skipped_signal(number: int) -> str:
    """Return the patch by which a workflow records that it had no time to read this one of all its signals."""
    return f"perdure-skipped-signal-{number}"


def postponed_signal(number: int) -> str:
    """Return the patch by which a workflow records that it reads this one of all its signals in a later task."""
    return f"perdure-postponed-signal-{number}"


def vouched_signal(number: int) -> str:
    """Return the patch by which a run records that this one of all signed decisions by signal was made by somebody who
    may decide.
    """
    return f"perdure-vouched-signal-{number}"


def dropped_signal(number: int) -> str:
    """Return the patch by which a workflow records that its worker could not read this one of those that are JSON."""
    return f"perdure-dropped-signal-{number}"


FORK_OF = "forkOf"
"""The name in a fork's memo under which stands what it is a fork of (`ForkOf`)."""
